# SPDX-License-Identifier: GPL-3.0-or-later
# What a person types to build, try and check agent-q. Each target does the set-up that it needs;
# the work itself is in scripts/.

EMACS ?= emacs
# Memory limits the number of compilers too, not only the number of processors.
JOBS ?= $(shell sh scripts/jobs.sh)

export EMACS YES
export CARGO_BUILD_JOBS = $(JOBS)

.DEFAULT_GOAL := help
.PHONY: help chat demo-model test test-all test-quick seen build package bench compare trial implementations generate facts lint clean

help: ## Say what each target does
	@echo "agent-q: an LLM agent for Common Lisp programmers, inside Emacs"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target what; do \
	  printf '%-18s %s\n' "$$target" "$$what"; done
	@echo
	@echo "YES=1 answers the question before anything is installed; EMACS=… chooses another Emacs."

chat: ## Install what is missing, build, and open a chat beside a running Common Lisp
	@sh scripts/setup.sh build chat
	@sh scripts/build.sh
	@sh scripts/chat.sh

demo-model: ## Fetch the tiny demo model (about 130 MB) for machines without a model
	@sh scripts/demo-model.sh install

test: ## Run everything that CI runs; T=regexp: only the tests whose names match
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@T='$(T)' sh scripts/test.sh

test-all: ## Run everything twice: as byte code and native code, through SLY and SLIME, in new and saved images
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@ALL=1 sh scripts/test.sh

test-quick: ## Run the tests that need neither an image nor a terminal
	@sh scripts/setup.sh build
	@sh scripts/build.sh
	@QUICK=1 sh scripts/test.sh

seen: ## Write the golden files of what the model sees (test/fixtures/seen): schemas, prompt, results of tools
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

bench: ## Measure, each figure with its target
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@sh scripts/bench.sh

compare: ## Measure the same stream through gptel, if your Emacs has it
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@ONLY=compare sh scripts/bench.sh

trial: ## Have your model solve small tasks, and say how it did; PROVIDER, MODEL and TASKS choose
	@sh scripts/setup.sh build chat
	@sh scripts/build.sh
	@sh scripts/trial.sh

implementations: ## Try every tool on the Lisps that are installed; write the table in IMPLEMENTATIONS.md
	@sh scripts/setup.sh build chat test
	@sh scripts/build.sh
	@sh scripts/implementations.sh

generate: ## Write the Emacs Lisp that is generated: autoloads, and the core's functions
	@"$(EMACS)" -Q --batch -l scripts/generate.el

facts: ## Write the facts of models from FILE=api.json of models.dev; fails if a default model is not in it
	@test -n "$(FILE)" || { echo 'make facts FILE=api.json, from https://models.dev/api.json' >&2; exit 2; }
	@"$(EMACS)" -Q --batch -l scripts/model-facts.el "$(FILE)"

lint: ## Check formatting, warnings and conventions
	@sh scripts/setup.sh lint
	@sh scripts/lint.sh

clean: ## Remove what was built
	cargo clean
	rm -f lisp/agent-q-core.* lisp/agent-q-mcp lisp/*.elc test/*.elc test/support/*.elc
