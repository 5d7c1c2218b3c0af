# SPDX-License-Identifier: GPL-3.0-or-later
# What a person types to build, try and check agent-q. Each target does the set-up that it needs;
# the work itself is in scripts/.

EMACS ?= emacs
# Memory limits the number of compilers too, not only the number of processors.
JOBS ?= $(shell sh scripts/jobs.sh)

export EMACS YES
export CARGO_BUILD_JOBS = $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help chat test test-all test-quick seen build package release bench compare conformance trial implementations generate manual facts lint clean

help: ## Say what each target does
	@echo "agent-q: an LLM agent for Common Lisp programmers, inside Emacs"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target what; do \
	  printf '%-22s %s\n' "$$target" "$$what"; done
	@echo
	@echo "YES=1 installs without a question; EMACS=... chooses another Emacs."

chat: ## Install what is missing, build, chat beside a Lisp
	@echo "1 of 3  Look for Rust, a C compiler, Emacs, SBCL, and SLY or SLIME"
	@sh scripts/setup.sh build chat
	@echo "2 of 3  Build agent-q's core: 2 to 6 minutes and 800 MB the first time, then seconds"
	@sh scripts/build.sh
	@echo "3 of 3  Open Emacs with a Lisp and a chat beside it; C-x C-c leaves it"
	@sh scripts/chat.sh

test: ## Run all that CI runs; T=regexp: tests with such names
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@T='$(T)' sh scripts/test.sh

test-all: ## Run all twice: byte and native code, SLY and SLIME
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@ALL=1 sh scripts/test.sh

test-quick: ## Run the tests that need neither an image nor a terminal
	@sh scripts/setup.sh build
	@sh scripts/build.sh
	@QUICK=1 sh scripts/test.sh

seen: ## Write what the model sees into test/fixtures/seen
	@sh scripts/setup.sh build chat
	@sh scripts/build.sh
	@AGENT_Q_WRITE_SEEN=1 T=agent-q-seen-is sh scripts/test.sh
	@AGENT_Q_WRITE_OFFER=1 cargo test --quiet --lib mcp::offer

build: ## Build the core and put it into lisp/
	@sh scripts/setup.sh build
	@sh scripts/build.sh

package: ## Build, and make a package for M-x package-install-file
	@sh scripts/setup.sh build
	@sh scripts/build.sh
	@sh scripts/package.sh

release: ## Archive this platform's core; ADDRESS=... writes the sums
	@sh scripts/setup.sh build
	@sh scripts/build.sh
	@ADDRESS='$(ADDRESS)' sh scripts/release.sh

bench: ## Measure, each figure with its target
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@sh scripts/bench.sh

compare: ## Measure the same stream through gptel
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@ONLY=compare sh scripts/bench.sh

conformance: ## Test the MCP client by the protocol's suite (npm, Node 22)
	@sh scripts/setup.sh build
	@sh scripts/build.sh
	@sh scripts/conformance.sh

trial: ## Have a model solve tasks: PROVIDER, MODEL, TASKS
	@sh scripts/setup.sh build chat
	@sh scripts/build.sh
	@sh scripts/trial.sh

implementations: ## Try all tools on all Lisps; write the table
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@sh scripts/implementations.sh

generate: ## Write what is generated: Emacs Lisp, reference, keys
	@"$(EMACS)" -Q --batch -l scripts/generate.el

manual: ## Build the manual: Info, HTML, a page of keys to print
	@sh scripts/setup.sh manual
	@sh scripts/manual.sh

facts: ## Write the facts of models from FILE=api.json
	@test -n "$(FILE)" || { echo 'make facts FILE=api.json, from https://models.dev/api.json' >&2; exit 2; }
	@"$(EMACS)" -Q --batch -l scripts/model-facts.el "$(FILE)"

lint: ## Check formatting, warnings and conventions
	@sh scripts/setup.sh lint
	@sh scripts/lint.sh

clean: ## Remove what was built
	cargo clean
	rm -f lisp/agent-q-core.* lisp/agent-q-mcp lisp/*.elc test/*.elc test/support/*.elc
