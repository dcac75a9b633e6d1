#!/usr/bin/env bash
# Builds the local Kubernetes from the modules pinned beside this script: etcd, the control plane,
# the node components and containerd. What is already built from the same pins is left alone.
#
# Usage: tools/kubernetes/build.sh [DIRECTORY]     (default: bin/k8s of this checkout)
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/../../bin/k8s}
mkdir -p "$out"
out=$(cd "$out" && pwd)

kubernetes_version=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$here/controlplane/go.mod")
version_package=k8s.io/component-base/version
build_date=1970-01-01T00:00:00Z
kubernetes_flags="-s -w -X $version_package.gitVersion=$kubernetes_version -X $version_package.buildDate=$build_date"

# build MODULE BINARY PACKAGE LINKER_FLAGS
build() {
  local module=$1 binary=$2 package=$3 flags=$4 pin started
  pin=$({ go version; cat "$here/$module/go.mod" "$here/$module/go.sum"; echo "$package $flags"; } | sha256sum | cut -d' ' -f1)
  if [ -x "$out/$binary" ] && [ "$(cat "$out/.$binary.pin" 2>/dev/null)" = "$pin" ]; then
    return
  fi
  started=$SECONDS
  printf 'building %s ...' "$binary"
  (cd "$here/$module" && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$out/.$binary.new" "$package")
  mv "$out/.$binary.new" "$out/$binary"
  echo "$pin" >"$out/.$binary.pin"
  printf ' %d s\n' $((SECONDS - started))
}

build controlplane etcd go.etcd.io/etcd/server/v3 "-s -w"
for component in kube-apiserver kubectl kubelet kube-controller-manager kube-scheduler kube-proxy; do
  build controlplane "$component" "k8s.io/kubernetes/cmd/$component" "$kubernetes_flags"
done
for component in containerd containerd-shim-runc-v2 ctr; do
  build containerd "$component" "github.com/containerd/containerd/v2/cmd/$component" "-s -w"
done
