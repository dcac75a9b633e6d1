#!/bin/sh
# Entry program of a node: writes the final configuration, holds the start gate, becomes the server.
#
# The start gate. A primary whose nodes.conf names a replica must not come back with less than that
# replica has: its data set on disk may be seconds or hours old, or gone, and the replica would copy
# it. Unless an append-only file with fsync everysec or always is in force, it waits here until the
# operator writes one of these into the Pod's annotation, which is mounted as a file:
#
#   <epoch>            another primary of the group has this config epoch. If it is above the own
#                      one, start and become its replica. Without a data set nodes.conf goes too,
#                      so that the server starts under a new id, owning nothing.
#   serve:<epoch>[:n]  no better copy exists; start with what there is, if the own epoch is this.
#   serve:*[:n]        the same, where nobody is left who knows the own epoch.
#
# A serve value opens the gate once: it is written, with the Pod's UID, beside the data, where a reboot
# of the Node leaves it, and the same value does not open it again. The operator puts n, the restart
# count of the container, behind.
#
# Runs in any POSIX sh, busybox included, with od, sed, cat, mv, rm and sleep. Whatever goes wrong is
# said on stderr, whose end the kubelet puts into the Pod's status.
set -eu
umask 077
# As the container's first process it would not be ended by a signal that it does not handle.
trap 'exit 143' TERM
trap 'exit 130' INT

: "${REDIS_SERVER:=redis-server}"
: "${DATA_DIR:=/data}"
: "${RUN_DIR:=/run/redis}"
: "${CONFIG_FILE:=/etc/redis/redis.conf}"
: "${PASSWORD_FILE:=/etc/redis-password/password}"
: "${GATE_FILE:=/etc/podinfo/start-gate}"

die() {
	echo "entrypoint: $1" >&2
	exit 1
}

# directive NAME prints, in lower case, the last value that the configuration gives to a directive. Names
# are rendered in lower case; of such values the server does not care for the case.
directive() {
	sed -n "s/^$1 \{1,\}//p" "$CONFIG_FILE" | sed -n '$p' |
		sed 's/^"\(.*\)"$/\1/; y/ABCDEFGHIJKLMNOPQRSTUVWXYZ/abcdefghijklmnopqrstuvwxyz/'
}

# hex_password prints the password as \xHH escapes: any byte is safe in redis.conf that way.
hex_password() {
	od -An -v -tx1 "$1" | sed 's/ \{1,\}$//; s/ \{1,\}/\\x/g' | while read -r line; do
		printf '%s' "$line"
	done
}

# remember_password keeps the password of the Pod's first start: the Secret may change while the
# other nodes go on with the earlier one, and a node with another password could not replicate.
remember_password() {
	if [ ! -s "$RUN_DIR/password" ]; then
		[ -r "$PASSWORD_FILE" ] || die "the Secret has no readable key password"
		cat "$PASSWORD_FILE" >"$RUN_DIR/password.new"
		mv "$RUN_DIR/password.new" "$RUN_DIR/password"
	fi
	[ -s "$RUN_DIR/password" ] || die "the password is empty"
	case " $(od -An -v -tx1 "$RUN_DIR/password" | sed 's/$/ /')" in
	*' 00 '* | *' 0a '*) rm -f "$RUN_DIR/password"; die "the password holds a NUL or a newline" ;;
	esac
}

# render writes the final configuration. Its name carries the hash in the first line of the mounted
# one ("# directives HASH"): the server reports the name, and so what it was started with.
render() {
	read -r _ _ hash <"$CONFIG_FILE" || die "no configuration in $CONFIG_FILE"
	conf="$RUN_DIR/$hash.conf"
	{
		cat "$CONFIG_FILE"
		echo "dir \"$DATA_DIR\""
		[ -z "${POD_IP:-}" ] || echo "cluster-announce-ip $POD_IP"
		if [ -n "${PASSWORD_SECRET:-}" ]; then
			secret=$(hex_password "$RUN_DIR/password")
			printf 'requirepass "%s"\nmasterauth "%s"\n' "$secret" "$secret"
		fi
	} >"$conf.new"
	mv "$conf.new" "$conf"
}

# is_aof_safe: an append-only file is there and written at least every second.
is_aof_safe() {
	[ "$(directive appendonly)" = yes ] || return 1
	case "$(directive appendfsync)" in
	everysec | always | '') ;; # everysec is the server's default
	*) return 1 ;;
	esac
	for file in "$DATA_DIR"/appendonlydir/*.manifest "$DATA_DIR"/appendonly.aof; do
		[ ! -s "$file" ] || return 0
	done
	return 1
}

# has_dataset: there is something that the server would load.
has_dataset() {
	if [ "$(directive appendonly)" = yes ]; then
		for file in "$DATA_DIR"/appendonlydir/*.manifest "$DATA_DIR"/appendonly.aof; do
			[ ! -s "$file" ] || return 0
		done
		return 1
	fi
	[ -s "$DATA_DIR/dump.rdb" ]
}

# read_nodes sets own_id, own_epoch, is_owner and has_replica from nodes.conf. A line of it is: id,
# address, flags, primary's id or "-", ping sent, pong received, config epoch, link, slots.
read_nodes() {
	own_id='' own_epoch=0 is_owner='' has_replica=''
	[ -s "$DATA_DIR/nodes.conf" ] || return 0
	while read -r id _ flags _ _ _ epoch _ slots; do
		case ",$flags," in
		*,myself,*)
			own_id=$id own_epoch=$epoch
			case ",$flags, $slots" in
			*,master,*' '[0-9]*) is_owner=yes ;;
			esac
			;;
		esac
	done <"$DATA_DIR/nodes.conf"
	[ -n "$own_id" ] || return 0
	while read -r _ _ _ primary _; do
		[ "$primary" != "$own_id" ] || has_replica=yes
	done <"$DATA_DIR/nodes.conf"
}

# open_gate reports whether the annotation lets this start pass, and prepares for what it says.
open_gate() {
	[ -r "$GATE_FILE" ] || return 1
	gate=$(cat "$GATE_FILE")
	case "$gate" in
	serve:"$own_epoch" | serve:"$own_epoch":* | 'serve:*' | 'serve:*:'*)
		used="${POD_UID:-} $gate"
		[ ! -r "$DATA_DIR/gate-used" ] || [ "$used" != "$(cat "$DATA_DIR/gate-used")" ] || return 1
		echo "$used" >"$DATA_DIR/gate-used.new"
		mv "$DATA_DIR/gate-used.new" "$DATA_DIR/gate-used"
		echo "entrypoint: start gate open ($gate): serving what is here" >&2
		;;
	'' | *[!0-9]*) return 1 ;;
	*)
		[ "$gate" -gt "$own_epoch" ] || return 1
		echo "entrypoint: start gate open ($gate): joining as a replica" >&2
		has_dataset || rm -f "$DATA_DIR/nodes.conf"
		;;
	esac
}

# wait_at_gate returns once this start may go on.
wait_at_gate() {
	read_nodes
	[ -n "$is_owner" ] && [ -n "$has_replica" ] || return 0
	! is_aof_safe || return 0
	echo "entrypoint: waiting at the start gate: $own_id owned slots at epoch $own_epoch and had a replica" >&2
	until open_gate; do
		sleep 0.1 &
		wait $! || { sleep 1 & wait $!; }
	done
}

[ -z "${PASSWORD_SECRET:-}" ] || remember_password
wait_at_gate
render
echo "entrypoint: starting with directives $hash" >&2
exec "$REDIS_SERVER" "$conf"
