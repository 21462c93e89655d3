# What a person does with this repository, one word each. `make` lists the words.

# Segments for `make bench`: any WAL files, raw or compressed.
WAL ?= ../shared/wal-samples/oltp-steady
# How long each fuzz target runs.
FUZZ_SECONDS ?= 600
# How long `make torture` goes on: at least so many steps and kills, and for so many minutes in each
# of its parts. TORTURE_SEED and TORTURE_PART (store, faults, clusters, several) repeat what it found.
TORTURE_STEPS ?= 2000
TORTURE_KILLS ?= 200
TORTURE_MINUTES ?= 0
TORTURE_SEED ?= $(shell date +%s)
TORTURE_PART ?=

# Where `make demo` has its repository: behind a local server for S3 or SFTP, or in a directory.
STORE ?=

.DEFAULT_GOAL := help
.PHONY: help build demo test torture bench bench-tools fuzz lint package servers

help: ## List what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the walzip program in release mode
	cargo build --release --locked -p walzip

demo: ## Archive a server, make a mistake, restore to the moment before (STORE=s3, STORE=sftp)
	@scripts/demo $(STORE)

test: ## Fetch PostgreSQL 13 to 18 and run every test, real clusters included
	@scripts/test

torture: ## Attack archives with kills, faults, damage, forks and restores, by TORTURE_SEED
	TORTURE_STEPS=$(TORTURE_STEPS) TORTURE_KILLS=$(TORTURE_KILLS) \
	TORTURE_MINUTES=$(TORTURE_MINUTES) TORTURE_SEED=$(TORTURE_SEED) TORTURE_PART=$(TORTURE_PART) \
	cargo test --release --locked -p walzip --test torture

bench: build ## Measure speed and size: criterion, then `walzip bench wal` on WAL=...
	cargo bench --locked --workspace --bench '*'
	$${CARGO_TARGET_DIR:-target}/release/walzip bench wal $(WAL)

bench-tools: ## Install the programs that `walzip bench` compares
	@scripts/bench-tools

fuzz: ## Fuzz every target for FUZZ_SECONDS each (nightly toolchain, cargo-fuzz)
	@scripts/fuzz $(FUZZ_SECONDS)

lint: ## Check format, clippy and shell scripts
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	@if command -v shellcheck >/dev/null; then shellcheck scripts/* .ci/run; \
	else echo "shellcheck is not installed: scripts were not checked"; fi

package: ## Make the Debian package: one static program, manual, units
	@scripts/package-deb

servers: ## Fetch the servers only: PostgreSQL's, those of the stores, pgBackRest and promtool
	@scripts/fetch-postgres
	@scripts/fetch-store-servers
	@scripts/fetch-pgbackrest
	@scripts/fetch-promtool
