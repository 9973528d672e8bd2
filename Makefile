# The front door; Meson does the work. Every target can be run by hand on Debian 12.
BUILD ?= build
MESON_FLAGS ?=
TESTS ?=

.PHONY: all deps build demo check lint sanitize valgrind stress stress-flame fuzz bench bench-load-accuracy \
  bench-load-speed install format clean

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

# donmaz flame reads files of hundreds of megabytes in bounded memory. Minutes; a gigabyte of disk.
stress-flame: deps build
	python3 tests/e2e/flame/large.py $(BUILD)/donmaz 320

fuzz: deps
	scripts/fuzz

bench: deps build
	bench/run $(BUILD)

# How exact donmaz load is, and what a request costs it. On a machine nobody else uses.
bench-load-accuracy: deps build
	bench/load-accuracy $(BUILD)

bench-load-speed: deps build
	bench/load-speed $(BUILD)

install: build
	meson install -C $(BUILD)

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	rm -rf build build-*
