#!/usr/bin/env bash
# Builds the local Kubernetes from the modules pinned beside this script: etcd, the control plane,
# the node components and containerd, and the init program of test/localcluster. What is already
# built from the same pins is left alone. Says what it builds and how long it took.
#
# Usage: tools/kubernetes/build.sh [DIRECTORY]     (default: bin/k8s of this checkout)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
pause=$here/../../test/localcluster/pause
out=${1:-$here/../../bin/k8s}
mkdir -p "$out"
out=$(cd "$out" && pwd)

kubernetes_version=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$here/controlplane/go.mod")
version_package=k8s.io/component-base/version
build_date=1970-01-01T00:00:00Z
kubernetes_flags="-s -w -X $version_package.gitVersion=$kubernetes_version -X $version_package.buildDate=$build_date"

# build BINARY PACKAGE LINKER_FLAGS FOLDER PINNED_FILE...
# FOLDER is where PACKAGE is built; the binary is good for as long as the files stay as they are.
build() {
  local binary=$1 package=$2 flags=$3 folder=$4 pin started
  shift 4
  pin=$({ go version; cat "$@"; echo "$package $flags"; } | sha256sum | cut -d' ' -f1)
  if [ -x "$out/$binary" ] && [ "$(cat "$out/.$binary.pin" 2>/dev/null)" = "$pin" ]; then
    return
  fi
  started=$SECONDS
  printf 'building %s ...' "$binary"
  (cd "$folder" && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$out/.$binary.new" "$package")
  mv "$out/.$binary.new" "$out/$binary"
  echo "$pin" >"$out/.$binary.pin"
  printf ' %d s\n' $((SECONDS - started))
}

# of_module MODULE BINARY PACKAGE LINKER_FLAGS
of_module() {
  build "$2" "$3" "$4" "$here/$1" "$here/$1/go.mod" "$here/$1/go.sum"
}

of_module controlplane etcd go.etcd.io/etcd/server/v3 "-s -w"
for component in kube-apiserver kubectl kubelet kube-controller-manager kube-scheduler kube-proxy; do
  of_module controlplane "$component" "k8s.io/kubernetes/cmd/$component" "$kubernetes_flags"
done
for component in containerd containerd-shim-runc-v2 ctr; do
  of_module containerd "$component" "github.com/containerd/containerd/v2/cmd/$component" "-s -w"
done
build pause . "-s -w" "$pause" "$pause/main.go"
