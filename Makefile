# The front door; Meson does the work. Every target can be run by hand on Debian 12.
BUILD ?= build
MESON_FLAGS ?=
TESTS ?=
SEED ?= 1

.PHONY: all deps build demo check lint sanitize valgrind stress stress-flame stress-pool stress-redis fuzz \
  bench bench-load-accuracy bench-load-speed bench-log bench-pool bench-redis install format clean

all: build

# Installs what is missing (Debian packages, and npm packages for the peers). Needs root or sudo.
deps:
	@scripts/deps

$(BUILD)/build.ninja:
	@scripts/deps build
	meson setup $(BUILD) $(MESON_FLAGS)

build: $(BUILD)/build.ninja
	meson compile -C $(BUILD)

# The main job: the concurrency experiment in quick form, donmaz beside Node.
demo: deps build
	scripts/demo $(BUILD)

check: deps build
	meson test -C $(BUILD) --print-errorlogs $(TESTS)

lint: deps
	scripts/lint

sanitize: deps
	scripts/sanitize

# The unit tests, fault injection and hello under load: no leak, no descriptor left open. Minutes.
valgrind: deps build
	scripts/valgrind $(BUILD)

# The core under everything at once, for a minute.
stress: deps build
	meson compile -C $(BUILD) test-stress-stress
	$(BUILD)/tests/stress/test-stress-stress --seconds 60

# A million answers from a Redis that is killed, paused, filled up and worse: about two minutes.
stress-redis: deps build
	meson compile -C $(BUILD) test-redis-million
	$(BUILD)/tests/unit/redis/test-redis-million --answers 1000000 --seed $(SEED)

# donmaz flame reads files of hundreds of megabytes in bounded memory, and Go's pprof what it writes.
# Minutes; a gigabyte of disk.
stress-flame: deps build
	DONMAZ_GO=1 meson test -C $(BUILD) browser/flame-viewers
	python3 tests/e2e/flame/large.py $(BUILD)/donmaz 320

fuzz: deps
	scripts/fuzz

# Fails when one of its targets is missed.
bench: deps build
	bench/run $(BUILD) --check

# How exact donmaz load is, and what a request costs it. On a machine nobody else uses.
bench-load-accuracy: deps build
	bench/load-accuracy $(BUILD)

bench-load-speed: deps build
	bench/load-speed $(BUILD)

# redis-json beside the floor, Node and Rust, and whether it meets its targets. Four minutes, on a
# machine nobody else uses.
bench-redis: deps
	@[ -f build-release/build.ninja ] || meson setup build-release --buildtype=release
	meson compile -C build-release
	peers/install redis-json-node redis-json-rust || echo "bench-redis: goes on without the peers that are missing" >&2
	bench/redis_json.py build-release

# A million tasks through each isolation with kills and cancels, under both sanitizers. Minutes.
stress-pool: deps
	scripts/stress-pool

# Reference 2: the pool beside Node and Piscina, and what must hold of it. Two minutes.
bench-pool: deps build
	peers/install node
	bench/worker_pool.py $(BUILD)

# What logging costs, beside pino and beside no log. In a release build, on a machine nobody else uses.
bench-log: deps
	@[ -f build-release/build.ninja ] || meson setup build-release --buildtype=release
	meson compile -C build-release bench-log hello
	peers/install log-node
	bench/logging build-release --check

install: build
	meson install -C $(BUILD)

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	rm -rf build build-*
