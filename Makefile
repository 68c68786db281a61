# Alfirk. `make help` lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
# The message of `make run` and `make mininet`: any file. Without one `make run` sends 16 MiB of random bytes.
INPUT ?=
MININET_INPUT ?= Cargo.lock
GROUP ?= 16
TOPOLOGY ?= topologies/fat-tree-k4.yaml
ALGORITHMS ?= alfirk,chain,binomial,unicast
# Duration of `make soak`.
MINUTES ?= 30
# Programs for `make tofino-compare`: a folder.
PROGRAMS ?= p4src/tna
# The switch that the PTF tests drive; `make ptf SWITCH=/usr/bin/simple_switch_grpc` tries another one.
SWITCH ?=
# LCOV file to which `make ptf` adds the coverage of p4src, on all targets; it is then compared with the book.
COVERAGE ?=

# Cargo shows its progress on a terminal.
QUIET := $(shell test -t 2 || echo --quiet)
TARGET := $(or $(CARGO_TARGET_DIR),target)
ALFIRK := $(TARGET)/release/alfirk
# Less optimised (profile quick of Cargo.toml).
QUICK := $(TARGET)/quick/alfirk
CARGO := tools/cargo
PYTHON := .venv/bin/python
SHARE := $(DESTDIR)$(PREFIX)/share
ROOM := $(SHARE)/alfirk
# Where Wireshark looks for dissectors in Lua: `tshark -G folders`. Debian's: /usr/lib/x86_64-linux-gnu/wireshark/plugins.
WIRESHARK_PLUGINS ?= $(PREFIX)/lib/wireshark/plugins
DISSECTOR := $(DESTDIR)$(WIRESHARK_PLUGINS)/alfirk
# Targets of static binaries.
MUSL := $(shell uname -m)-unknown-linux-musl
GLIBC := $(shell uname -m)-unknown-linux-gnu
# Where shells look for completions.
COMPLETIONS := bash-completion/completions zsh/site-functions fish/vendor_completions.d

.DEFAULT_GOAL := help
.PHONY: help build quick run test bench notebooks book play-wasm contract model tofino tofino-compare soak mininet ptf interop interop-speed guest-image install dist dist-check deb static static-glibc static-musl wheel image-check tutorials install-library uninstall fmt lint clean lock setup setup-interop build-verbs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the alfirk command, optimised
	@$(CARGO) build $(QUIET) --release --package alfirk-cli

quick: ## Build the alfirk command in less time: only packet processing is optimised; no language server, no TLS
	@$(CARGO) build $(QUIET) --profile quick --package alfirk-cli --no-default-features

run: quick ## Send 16 MiB to 15 hosts of a fat-tree by four algorithms, in virtual time
	@$(QUICK) run --topology $(TOPOLOGY) --group $(GROUP) $(if $(INPUT),--input $(INPUT),--size 16MiB) --algorithms $(ALGORITHMS)

test: setup-interop ## Run all checks and tests
	@$(PYTHON) tools/checks.py

bench: build setup ## Measure pipeline, simulator, switch and compiler on this machine
	@$(PYTHON) tools/bench.py --alfirk $(ALFIRK)

notebooks: quick setup ## Execute the notebooks of labs/notebooks, and compare what they show
	@ALFIRK=$(abspath $(QUICK)) .venv/clients/notebooks/bin/python tools/notebooks.py

book: ## Build the book of docs/book into target/book (cargo install mdbook --locked)
	@python3 docs/book/build.py

play-wasm: setup ## Build the playground into target/play-wasm, for any static web server; CHECK=1 also tries it in a browser, SOLUTIONS=0 leaves out the solutions of the labs
	@$(PYTHON) tools/play_wasm.py $(if $(filter 0,$(SOLUTIONS)),--without-solutions)
	@$(if $(CHECK),$(PYTHON) -m pytest --quiet play/tests/wasm_test.py)

contract: ## Generate contract/ and other files with the numbers that data plane, controller, tests and Wireshark's dissector share
	@ALFIRK_WRITE_CONTRACT=1 $(CARGO) test --quiet --package alfirk-compiler --test contract
	@ALFIRK_WRITE_CONTRACT=1 $(CARGO) test --quiet --package scapy-rs --test wireshark

model: ## Model-check the rules of aggregation in small fabrics: every interleaving, loss and false report (minutes)
	@$(CARGO) test --quiet --release --package alfirk-sim --test feedback_model -- --ignored --nocapture

tofino: setup ## Compile the data plane for Tofino and Tofino 2 with bf-p4c (or BF_P4C), and print its resources
	@$(PYTHON) tools/tofino.py

tofino-compare: quick setup ## Compare our report of stages with bf-p4c's for the programs in PROGRAMS (a folder)
	@$(PYTHON) tools/tofino_compare.py --alfirk $(QUICK) $(PROGRAMS)

soak: build setup ## Run a live switch for MINUTES at full rate with table churn, and check its memory (needs root)
	@$(PYTHON) tools/soak.py --alfirk $(ALFIRK) --minutes $(MINUTES)

mininet: quick setup ## Run the main job on Mininet: veth links, separate processes (needs root)
	@$(QUICK) run --driver mininet --topology $(TOPOLOGY) --group $(GROUP) --input $(MININET_INPUT) \
		--algorithms $(ALGORITHMS)

ptf: quick setup ## Run the packet tests against a live switch (needs root)
	@ptf-tests/run --alfirk $(QUICK) $(if $(SWITCH),--switch $(SWITCH)) $(if $(COVERAGE),--coverage $(COVERAGE))
ifneq ($(COVERAGE),)
	@ptf-tests/run --alfirk $(QUICK) --coverage $(COVERAGE) --target tna
	@ptf-tests/run --alfirk $(QUICK) --coverage $(COVERAGE) --profile core
	@$(PYTHON) tools/p4_coverage.py $(QUICK) $(COVERAGE)
endif

# Unoptimised, which takes less time to build; guests are slower than the command.
interop: ## Run the scenarios on guests with Linux's own RDMA stack (needs root)
	@tools/setup --apt-only --interop
	@$(CARGO) build --quiet --package alfirk-cli --features verbs
	@$(CARGO) build --quiet --package alfirk-mpi
	@interop/run run --alfirk $(TARGET)/debug/alfirk $(INTEROP)

interop-speed: build-verbs ## Measure speed between such guests, as ratios (needs root)
	@interop/run speed --alfirk $(ALFIRK)

guest-image: build-verbs ## Build what QEMU guests with Linux's own RDMA stack boot
	@interop/run build --alfirk $(ALFIRK)

install: build ## Install the command under all its names, P4 sources, labs, Python classes, Wireshark's dissector, manual pages and completions under PREFIX
	install -D -m 755 $(ALFIRK) $(DESTDIR)$(PREFIX)/bin/alfirk
	ln -sf alfirk $(DESTDIR)$(PREFIX)/bin/simple_switch_grpc
	ln -sf alfirk $(DESTDIR)$(PREFIX)/bin/simple_switch
	ln -sf alfirk $(DESTDIR)$(PREFIX)/bin/simple_switch_CLI
	ln -sf alfirk $(DESTDIR)$(PREFIX)/bin/p4c-bm2-ss
	ln -sf alfirk $(DESTDIR)$(PREFIX)/bin/p4c
	install -d $(ROOM)
	cp -R experiments labs mininet p4include p4src ptf-tests topologies $(ROOM)/
	install -D -m 644 -t $(ROOM)/editors/wireshark editors/wireshark/*.lua
	install -D -m 644 -t $(DISSECTOR) editors/wireshark/*.lua
	ln -sf ../share/alfirk/labs/run $(DESTDIR)$(PREFIX)/bin/alfirk-labs
	ln -sf ../share/alfirk/mininet/run $(DESTDIR)$(PREFIX)/bin/alfirk-mininet
	ln -sf ../share/alfirk/ptf-tests/run $(DESTDIR)$(PREFIX)/bin/alfirk-ptf
	find $(ROOM) \( -name __pycache__ -o -name tests \) -prune -exec rm -rf {} +
	$(ALFIRK) man $(SHARE)/man/man1
	install -d $(COMPLETIONS:%=$(SHARE)/%)
	$(ALFIRK) completions bash >$(SHARE)/bash-completion/completions/alfirk
	$(ALFIRK) completions zsh >$(SHARE)/zsh/site-functions/_alfirk
	$(ALFIRK) completions fish >$(SHARE)/fish/vendor_completions.d/alfirk.fish

dist: deb static ## Make packages in target/dist: a .deb, and a static binary

dist-check: ## Try the packages of `make dist`, each in a bare Debian (needs root and mmdebstrap)
	@python3 tools/dist_check.py

# The package has the files of `make install`.
deb: build ## Make a package for Debian 12 (needs cargo-deb: cargo install cargo-deb --locked)
	@$(CARGO) deb --version >/dev/null 2>&1 || { echo "no cargo-deb: cargo install cargo-deb --locked" >&2; exit 1; }
	@rm -rf $(TARGET)/release/deb
	@$(MAKE) --quiet install PREFIX=/usr DESTDIR=$(TARGET)/release/deb \
		WIRESHARK_PLUGINS=/usr/lib/$(shell uname -m)-linux-gnu/wireshark/plugins >/dev/null
	@find $(TARGET)/release/deb/usr/share/man -type f -exec gzip -9n {} +
	@mkdir -p $(TARGET)/dist
	@$(CARGO) deb --quiet --no-build --no-strip --package alfirk-cli --output $(TARGET)/dist/
	@ls $(TARGET)/dist/*.deb

# A static glibc resolves no host names: for that it loads shared libraries of exactly its version.
static: ## Make a static binary: with musl (musl-tools, and rustup target add $(MUSL)), else with glibc
	@if command -v musl-gcc >/dev/null && test -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)/lib"; then \
		$(MAKE) --quiet static-musl; \
	else \
		echo "no musl (sudo apt-get install musl-tools; rustup target add $(MUSL)): with glibc, which finds other machines by address only"; \
		$(MAKE) --quiet static-glibc; \
	fi

static-glibc:
	@RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --quiet --release --package alfirk-cli --target $(GLIBC)
	@install -D -m 755 $(TARGET)/$(GLIBC)/release/alfirk $(TARGET)/dist/alfirk-$(GLIBC)-static
	@ls $(TARGET)/dist/alfirk-$(GLIBC)-static

static-musl:
	@command -v musl-gcc >/dev/null || { echo "no musl-gcc: sudo apt-get install musl-tools" >&2; exit 1; }
	@test -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)/lib" || \
		{ echo "Rust's library for $(MUSL) is missing: rustup target add $(MUSL)" >&2; exit 1; }
	@$(CARGO) build --quiet --release --package alfirk-cli --target $(MUSL)
	@install -D -m 755 $(TARGET)/$(MUSL)/release/alfirk $(TARGET)/dist/alfirk-$(MUSL)
	@ls $(TARGET)/dist/alfirk-$(MUSL)

# zig links with the symbols of an older glibc, so that the wheel installs on distributions since 2020.
wheel: ## Make a wheel in target/dist: the command and its Python packages (pip install target/dist/alfirk-*.whl)
	@tools/setup --apt-only
	@cmp -s tools/wheel.lock $(TARGET)/wheel-tools/wheel.lock || { \
		/usr/bin/python3 -m venv --clear $(TARGET)/wheel-tools && \
		$(TARGET)/wheel-tools/bin/pip install --quiet --disable-pip-version-check --require-hashes -r tools/wheel.lock && \
		cp tools/wheel.lock $(TARGET)/wheel-tools/; }
	@python3 tools/build_wheel.py --maturin $(TARGET)/wheel-tools/bin/maturin --out $(TARGET)/dist -- --zig --compatibility manylinux_2_31

image-check: ## Carry out Containerfile's steps in a bare Debian, and check all labs there (needs root, mmdebstrap and a wheel)
	@python3 tools/image.py

tutorials: ## Run the exercises of a checkout of p4lang/tutorials in TUTORIALS, unchanged, with the wheel (needs root and Mininet)
	@python3 tools/tutorials.py $(TUTORIALS)

install-library: setup-interop ## Install the libraries for programs on RDMA devices and of MPI under PREFIX
	@$(CARGO) build --quiet --release --package alfirk-verbs --package alfirk-mpi
	install -D -m 644 verbs/include/alfirk.h $(DESTDIR)$(PREFIX)/include/alfirk.h
	install -D -m 755 $(TARGET)/release/libalfirk_verbs.so $(DESTDIR)$(PREFIX)/lib/libalfirk_verbs.so
	install -D -m 644 $(TARGET)/release/libalfirk_verbs.a $(DESTDIR)$(PREFIX)/lib/libalfirk_verbs.a
	install -D -m 755 $(TARGET)/release/libalfirk_mpi.so $(DESTDIR)$(PREFIX)/lib/libalfirk_mpi.so

uninstall: ## Remove what install put under PREFIX
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,alfirk alfirk-labs alfirk-mininet alfirk-ptf simple_switch simple_switch_grpc simple_switch_CLI p4c-bm2-ss p4c)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,include/alfirk.h lib/libalfirk_verbs.so lib/libalfirk_verbs.a lib/libalfirk_mpi.so)
	rm -f $(SHARE)/man/man1/alfirk.1 $(SHARE)/man/man1/alfirk-*.1
	rm -f $(addprefix $(SHARE)/,bash-completion/completions/alfirk zsh/site-functions/_alfirk fish/vendor_completions.d/alfirk.fish)
	rm -rf $(ROOM) $(DISSECTOR)

fmt: setup ## Format all Rust, P4 and Python sources
	@$(CARGO) fmt --all
	@$(CARGO) run --quiet --package alfirk-cli -- fmt p4src
	@.venv/bin/ruff format --quiet .
	@.venv/bin/ruff check --quiet --fix .

lint: setup ## Run the static checks: format, clippy, pure cores, types
	@$(PYTHON) tools/checks.py --only lint

clean: ## Remove everything built, the Python environment, and what a killed Mininet run left
	@$(CARGO) clean --quiet
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
	@find . -name __pycache__ -not -path './target/*' -prune -exec rm -rf {} +
	@if [ "$$(id -u)" -eq 0 ] && [ -x /usr/bin/mnexec ]; then \
		mininet/run clean; fi

lock: setup ## Pin the newest compatible Python packages
	@tools/lock

setup:
	@tools/setup

# setup-interop installs libibverbs.
build-verbs: setup-interop
	@$(CARGO) build --quiet --release --package alfirk-cli --features verbs

setup-interop:
	@tools/setup --interop
