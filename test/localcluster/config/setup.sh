# Process 1 of every set of namespaces runs this: it hides the host's /run, /var and /tmp behind
# folders of the cluster's own, at paths that are the same in every cluster.
stage=$DIR/nodes/$HOST/stage
mount -t tmpfs -o mode=755 localcluster "$stage"
mkdir -p "$stage/localcluster/state" "$stage/localcluster/bin" "$stage/lock"
mount --bind "$DIR" "$stage/localcluster/state"
mount --bind "$BINARIES" "$stage/localcluster/bin"
mount --rbind "$stage" /run
mount --bind "/run/localcluster/state/nodes/$HOST/var" /var
mount -t tmpfs -o mode=1777 localcluster /tmp
# The kubelet insists on these: it finds them in files of ours and leaves the kernel as it is.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
  kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  if [ -e "/proc/sys/$setting" ]; then
    mount --bind "/run/localcluster/state/config/sysctl/$(basename "$setting")" "/proc/sys/$setting"
  fi
done
echo 1 >/proc/sys/net/ipv4/ip_forward
hostname "$HOST"
