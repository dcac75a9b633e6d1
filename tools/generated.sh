#!/usr/bin/env bash
# Fails when a generated file is not what its source generates today. It writes nothing in the tree.
#
# Usage: tools/generated.sh PATH_OF_CONTROLLER_GEN
set -euo pipefail

generator=$1
example=examples/memcached
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

"$generator" object paths=./api/... output:object:dir="$fresh/object"
"$generator" crd paths=./api/... output:crd:dir="$fresh/crd"
"$generator" rbac:roleName=redis-operator paths=./controllers/... output:rbac:dir="$fresh/rbac"
(
  cd "$example"
  "$generator" object paths=./api/... output:object:dir="$fresh/example/object"
  "$generator" crd paths=./api/... output:crd:dir="$fresh/example/crd"
  "$generator" rbac:roleName=memcached-operator paths=./controller/... output:rbac:dir="$fresh/example/rbac"
)
mkdir "$fresh/fence"
go run ./cmd/fence -out "$fresh/fence"

stale=0
# compare GENERATED COMMITTED TARGET
compare() {
  if ! diff -u "$2" "$1"; then
    echo "lint: $2 is out of date; run: make $3" >&2
    stale=1
  fi
}

compare "$fresh/object/zz_generated.deepcopy.go" api/v1/zz_generated.deepcopy.go generate
for file in "$fresh"/crd/*.yaml; do
  compare "$file" "deploy/crd/${file##*/}" manifests
done
compare "$fresh/rbac/role.yaml" deploy/rbac/role.yaml manifests
for file in "$fresh"/fence/*.yaml; do
  compare "$file" "deploy/fence/${file##*/}" manifests
done

api=$example/api/v1alpha1/zz_generated.deepcopy.go
compare "$fresh/example/object/${api##*/}" "$api" generate
for file in "$fresh"/example/crd/*.yaml; do
  compare "$file" "$example/deploy/crd/${file##*/}" manifests
done
compare "$fresh/example/rbac/role.yaml" "$example/deploy/rbac/role.yaml" manifests
exit "$stale"
