# `make` prints this file's targets. Everything is built into bin/, which git ignores.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

IMG       ?= redis-operator:dev
NAMESPACE := redis-operator-system
CONTAINER ?= docker

BIN       := $(CURDIR)/bin
# Static binaries, and one set of compiled packages for all that is built; only the race detector
# needs cgo, and so a set of its own.
export CGO_ENABLED = 0
# The local Kubernetes; envtest starts its etcd and kube-apiserver from the same folder.
export KUBEBUILDER_ASSETS ?= $(BIN)/k8s
# The user's own kubectl where there is one, else the one that `make k8s` builds.
KUBECTL   ?= $(or $(shell command -v kubectl 2>/dev/null),$(BIN)/k8s/kubectl)

# The operator that shows how the library is used; a module of its own.
EXAMPLE := examples/memcached

CONTROLLER_GEN := $(BIN)/tools/controller-gen
GOLANGCI_LINT  := $(BIN)/tools/golangci-lint
GOVULNCHECK    := $(BIN)/tools/govulncheck

# The suites collect garbage seldom, to leave the cores to the tests; `make lint` has vet.
GO_TEST := CGO_ENABLED=1 GOGC=400 go test -race -vet=off
# What `make test` runs: two lanes side by side of suites that mainly wait, and then, one after the other and
# beside nothing, those that have a whole Kubernetes: with one beside them, tests on real servers miss their
# times. Those of CLUSTERS and ENVTESTS are folders of test/. The cache of results sees neither what a test
# starts nor what it reads outside its module, so only the root module's may come from it.
CLUSTERS    := e2e localcluster chaos
ENVTESTS    := $(addprefix envtest/,rediscluster sharding serverfence claim scopedcache)
OTHERS      := unit simulation test-unit example
TEST_SUITES := $(addprefix suite/,$(CLUSTERS) $(ENVTESTS) $(OTHERS))
space       := $(subst ,, )

##@ Main job

.PHONY: demo
demo: packages k8s build ## Run the main job from nothing to a verified end (KEEP=1 stays up, CLUSTER=current uses your cluster)
	cd test && go run ./cmd/demo

.PHONY: test
test: packages k8s build ## Run every test: unit, property, envtest, end to end (some 20 minutes on two cores once built)
	@echo "test: $(words $(TEST_SUITES)) suites; each is printed when it ends"
	@$(MAKE) --no-print-directory -j2 --output-sync=target lane/ENVTESTS lane/OTHERS
	@$(MAKE) --no-print-directory lane/CLUSTERS
	@echo "test: ok"

.PHONY: lane/ENVTESTS lane/OTHERS lane/CLUSTERS $(TEST_SUITES)
lane/ENVTESTS lane/OTHERS lane/CLUSTERS: lane/%: # one suite after the other
	@for suite in $($*); do $(MAKE) --no-print-directory suite/$$suite; done
suite/unit:
	$(GO_TEST) ./...
suite/simulation: # many more seeds than with the race detector
	go test -run '^(TestSimulation|TestStories)$$' ./sharding
suite/test-unit:
	cd test && packages=$$(go list ./... | grep -vE '/test/($(subst $(space),|,$(CLUSTERS) $(ENVTESTS)))(/|$$)') && $(GO_TEST) -count=1 $$packages
suite/example:
	cd $(EXAMPLE) && $(GO_TEST) -count=1 -p 1 ./...
suite/e2e: # its stories mainly wait
	cd test && $(GO_TEST) -count=1 -parallel 4 -timeout 40m ./e2e
$(filter-out suite/e2e,$(addprefix suite/,$(CLUSTERS) $(ENVTESTS))): suite/%:
	cd test && $(GO_TEST) -count=1 -p 1 -timeout 40m ./$*/...

.PHONY: test-all
test-all: export TEST_ALL = 1
test-all: test ## Run `test` with the long runs and the matrix of engines

.PHONY: bench
bench: packages k8s build ## Print the figures of one scenario: make bench SCENARIO=placement
	@[ -n "$(SCENARIO)" ] || { echo "bench: name a scenario, as in: make bench SCENARIO=placement" >&2; exit 2; }
	cd test && go run ./cmd/bench -scenario $(SCENARIO)

.PHONY: chaos
chaos: SEED ?= $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
chaos: MINUTES ?= 3
chaos: packages k8s build ## Disturb an installation and check its invariants: make chaos SEED=1 MINUTES=60
	cd test && go test -count=1 -v -timeout 0 -run '^TestChaos$$' ./chaos -chaos.seed=$(SEED) -chaos.minutes=$(MINUTES)

##@ Local Kubernetes

.PHONY: packages
packages: ## Install the Debian packages that are missing (as root), or say which
	@tools/packages.sh

.PHONY: k8s
k8s: ## Build etcd, Kubernetes and containerd into bin/k8s (once; up to half an hour on two cores)
	@tools/kubernetes/build.sh $(BIN)/k8s

.PHONY: local-up
local-up: packages k8s ## Start the local Kubernetes and print the export KUBECONFIG= line
	cd test && go run ./cmd/localcluster up

.PHONY: local-down
local-down: ## Stop the local Kubernetes and remove everything of it
	cd test && go run ./cmd/localcluster down

##@ Development

.PHONY: build
build: ## Build the static operator binary bin/manager
	go build -ldflags '-s -w' -o $(BIN)/manager ./cmd/manager

.PHONY: generate
generate: $(CONTROLLER_GEN) ## Generate the deep copies in api/ and in the example's
	$(CONTROLLER_GEN) object paths=./api/...
	cd $(EXAMPLE) && $(CONTROLLER_GEN) object paths=./api/...

.PHONY: manifests
manifests: $(CONTROLLER_GEN) ## Generate the CRDs, the operators' roles and the server's fence
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:dir=deploy/crd
	$(CONTROLLER_GEN) rbac:roleName=redis-operator paths=./controllers/... output:rbac:dir=deploy/rbac
	go run ./cmd/fence -out deploy/fence
	cd $(EXAMPLE) && $(CONTROLLER_GEN) crd paths=./api/... output:crd:dir=deploy/crd
	cd $(EXAMPLE) && $(CONTROLLER_GEN) rbac:roleName=memcached-operator paths=./controller/... output:rbac:dir=deploy/rbac

.PHONY: dashboards
dashboards: ## Generate the Grafana dashboards in dashboards/
	cd test && go run ./dashboards/generate ../dashboards

.PHONY: lint
lint: lint-generated $(GOLANGCI_LINT) ## Run golangci-lint, the import table, and the check of generated files
	$(GOLANGCI_LINT) run ./...
	cd test && $(GOLANGCI_LINT) run --config ../.golangci.yml ./...
	cd $(EXAMPLE) && $(GOLANGCI_LINT) run --config ../../.golangci.yml ./...
	cd test && go test -count=1 ./arch/...

.PHONY: lint-generated
lint-generated: $(CONTROLLER_GEN)
	@tools/generated.sh $(CONTROLLER_GEN)

.PHONY: vuln
vuln: $(GOVULNCHECK) ## Look for known vulnerabilities (needs the database from outside)
	$(GOVULNCHECK) ./...

.PHONY: verify
verify: generate manifests dashboards lint test ## Regenerate, lint, test, and fail if git is not clean
	@[ -z "$$(git status --porcelain)" ] || { git status --short; echo "verify: the tree is not clean" >&2; exit 1; }

##@ Your cluster (the current kubeconfig context)

.PHONY: install
install: ## Install the CRD
	$(KUBECTL) apply --server-side -k deploy/crd

.PHONY: uninstall
uninstall: ## Remove the CRD, and with it every RedisCluster
	$(KUBECTL) delete --ignore-not-found -k deploy/crd

.PHONY: deploy
deploy: ## Deploy the operator with the image IMG; an installed one keeps its number of replicas
	@mkdir -p $(BIN)/deploy
	replicas=$$($(KUBECTL) get statefulset redis-operator -n $(NAMESPACE) --ignore-not-found -o jsonpath='{.spec.replicas}'); \
	printf '%s\n' 'resources: [../../deploy/default]' "replicas: [{name: redis-operator, count: $${replicas:-3}}]" \
	  > $(BIN)/deploy/kustomization.yaml
	$(KUBECTL) kustomize $(BIN)/deploy | sed 's|image: redis-operator:dev$$|image: $(IMG)|' | $(KUBECTL) apply --server-side -f -
	$(KUBECTL) -n $(NAMESPACE) rollout status statefulset/redis-operator --timeout=180s

.PHONY: undeploy
undeploy: ## Remove the operator and the CRD, and with it every RedisCluster
	$(KUBECTL) delete --ignore-not-found -k deploy/default

.PHONY: run
run: install ## Run one operator process on this machine against your cluster
	$(KUBECTL) apply --server-side -f deploy/manager/namespace.yaml
	go run ./cmd/manager

.PHONY: docker-build
docker-build: ## Build the image IMG (CONTAINER=docker, podman or buildah)
	$(CONTAINER) build -t $(IMG) .

##@ Help

.PHONY: help
help: ## Print this help
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The development tools come from the module tools/, so that the operator's go.mod stays small.
$(BIN)/tools/controller-gen: PACKAGE = sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/tools/golangci-lint: PACKAGE = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/tools/govulncheck: PACKAGE = golang.org/x/vuln/cmd/govulncheck
$(BIN)/tools/%: tools/go.mod tools/go.sum
	@echo "building $* ..."
	cd tools && go build -trimpath -ldflags '-s -w' -o $@ $(PACKAGE)
	@touch $@
