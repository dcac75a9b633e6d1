#!/usr/bin/env bash
# Makes sure that what the demo and the tests take from Debian is there. As root with apt-get it
# installs what is missing; anywhere else it says in one line what to install and fails.
set -euo pipefail

# What is looked for (a command, or a path), and the Debian package that brings it.
wanted=(
  gcc:gcc
  /usr/include/stdlib.h:libc6-dev
  git:git
  ip:iproute2
  nsenter:util-linux
  nft:nftables
  iptables:iptables
  conntrack:conntrack
  busybox:busybox-static
  runc:runc
  /usr/lib/cni/bridge:containernetworking-plugins
  redis-server:redis-server
  redis-cli:redis-tools
  prometheus:prometheus
)

# missing_packages prints the packages whose probe is not there, one a line.
missing_packages() {
  local pair probe
  for pair in "${wanted[@]}"; do
    probe=${pair%%:*}
    case $probe in
      /*) [ -e "$probe" ] || echo "${pair#*:}" ;;
      *) PATH=$PATH:/usr/sbin:/sbin command -v "$probe" >/dev/null || echo "${pair#*:}" ;;
    esac
  done
}

mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "packages: missing; install them with: apt-get install ${missing[*]}" >&2
  exit 1
fi

echo "packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

mapfile -t missing < <(missing_packages)
if [ ${#missing[@]} -gt 0 ]; then
  echo "packages: still missing after the installation: ${missing[*]}" >&2
  exit 1
fi
