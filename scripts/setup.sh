#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Installs what the purposes given as arguments need: build, chat, test, lint, manual.
# Asks once before anything is installed; YES=1 or CI=true answers. Does nothing when all is there.

set -u
cd "$(dirname "$0")/.." || exit 1
: "${EMACS:=emacs}"

packages=''      # Debian packages that are missing
by_hand=''       # what is missing, for people on other systems; one a line
unmended=''      # what no package of Debian's mends
release=''       # apt-get's option for where the packages come from, if one is needed
welcome=''       # Debian packages that are missing, without which some tests are skipped

want() { # PACKAGES DESCRIPTION
  packages="$packages $1"
  by_hand="$by_hand
  - $2"
}

have() { command -v "$1" >/dev/null 2>&1; }

report=''
ask_emacs() {
  if have "$EMACS"; then
    report=$("$EMACS" -Q --batch -l scripts/lisp-ide.el -f agent-q-ide-report 2>/dev/null) || report=''
  fi
}

fact() { # NAME -> its value in Emacs's report
  printf '%s\n' "$report" | sed -n "s/^$1 //p"
}

check_emacs() {
  if [ "$(fact emacs)" = ok ] && [ "$(fact modules)" = yes ]; then return; fi
  if [ "$EMACS" != emacs ]; then
    unmended="$unmended
  - $EMACS (named by EMACS=) is no Emacs 28.1 or later with dynamic modules"
  elif [ -n "$report" ] && [ "$(fact modules)" = no ]; then
    unmended="$unmended
  - the installed Emacs was built without dynamic modules (configure --with-modules)"
  else
    want emacs-nox 'Emacs 28.1 or later, with dynamic modules'
  fi
}

# The one thing that is never installed here, so it is looked at before anything is.
check_rust() {
  wanted=$(sed -n 's/^rust-version = "1\.\([0-9]*\)".*/\1/p' Cargo.toml)
  if ! have cargo || ! have rustc; then
    if [ -x "${CARGO_HOME:-${HOME:-}/.cargo}/bin/cargo" ]; then
      fail_for_rust 'it is installed, but not on the PATH' '. "${CARGO_HOME:-$HOME/.cargo}/env"'
    fi
    fail_for_rust 'there is none' "$(rust_remedy)"
  fi
  minor=$(rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
  if [ -z "$minor" ] && have rustup; then
    fail_for_rust 'rustup has no toolchain chosen' 'rustup default stable'
  elif [ -z "$minor" ]; then
    fail_for_rust 'rustc does not say its version' "$(rust_remedy)"
  elif [ "$minor" -lt "$wanted" ]; then
    fail_for_rust "this is 1.$minor" "$(rust_remedy)"
  fi
}

rust_remedy() {
  if have rustup; then
    echo 'rustup update stable && rustup default stable'
  elif apt-cache policy rustup 2>/dev/null | grep -q 'Candidate: [0-9]'; then
    # It takes the place of the system's own rustc, which doesn't change with time.
    echo 'sudo apt-get install rustup && rustup default stable'
  else
    echo 'install it as https://rustup.rs says'
  fi
}

fail_for_rust() { # WHAT-IS-THERE REMEDY
  printf 'Needed: Rust 1.%s or later (%s): %s\nThen try again; nothing was installed.\n' \
    "$wanted" "$1" "$2" >&2
  exit 1
}

can_link() {
  program=$(mktemp "${TMPDIR:-/tmp}/agent-q-setup.XXXXXX") || return
  echo 'int main(void) { return 0; }' | cc -x c -o "$program" - 2>/dev/null
  status=$?
  rm -f "$program"
  return "$status"
}

check_compiler() {
  if ! have cc; then
    want 'gcc libc6-dev' "a C compiler (cc) and the C library's headers"
  elif ! can_link; then
    want libc6-dev "the C library's headers, without which cc can't link a program"
  fi
}

check_image() {
  have sbcl || want sbcl 'SBCL, or another Common Lisp that is called sbcl'
  if [ "${report:+set}" != set ] || { [ "$(fact sly)" = no ] && [ "$(fact slime)" = no ]; }; then
    want 'slime cl-swank' 'SLIME or SLY for Emacs (M-x package-install RET sly)'
  fi
}

# The tests are run through SLIME always, through SLY where it is found.
check_slime() {
  if [ "${report:+set}" != set ] || [ "$(fact slime)" = no ]; then
    case "$packages" in
      *slime*) ;;
      *) want 'slime cl-swank' 'SLIME for Emacs (M-x package-install RET slime)' ;;
    esac
  fi
}

check_lint() {
  if [ "${report:+set}" != set ] || [ "$(fact package-lint)" = no ]; then
    want elpa-package-lint 'package-lint for Emacs (M-x package-install RET package-lint)'
  fi
  have git || true # lint lists files with find, so git is no need
  if ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
    if have rustup; then
      echo "Adding rustfmt and clippy to the Rust toolchain."
      rustup component add rustfmt clippy >/dev/null 2>&1
    fi
    { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 ||
      echo "rustfmt and clippy are missing (rustup component add rustfmt clippy): lint can't check Rust." >&2
  fi
}

# Test frameworks that run_tests knows, what is tried with readtables, and what makes the Info manual: without them
# these tests are skipped, so nothing is asked of people without Debian's packages.
check_frameworks() {
  have apt-get && have dpkg || return
  for package in cl-fiveam cl-rt cl-fiasco cl-named-readtables cl-alexandria texinfo install-info; do
    dpkg -s "$package" >/dev/null 2>&1 || welcome="$welcome $package"
  done
}

# Without it the manual can still be read as Org and HTML, so it is asked for by `make manual' alone.
check_texinfo() {
  if ! have makeinfo || ! have install-info; then
    want 'texinfo install-info' 'texinfo (makeinfo, install-info), for the Info manual'
  fi
}

explain() { # WHY
  echo "$1" >&2
  # shellcheck disable=SC2086
  [ -z "$packages" ] || echo On Debian or Ubuntu: sudo apt-get install $release $packages >&2
  exit 1
}

agreed() {
  case "${YES:-}" in 1 | y | yes | true) return 0 ;; esac
  [ "${CI:-}" = true ] && return 0
  if [ ! -t 0 ] || [ ! -t 1 ]; then
    explain "Not installed, since nobody is here to ask (YES=1 answers yes)."
  fi
  printf 'Install them now? [Y/n] '
  read -r answer
  case "$answer" in '' | y | Y | yes | Yes) return 0 ;; *) return 1 ;; esac
}

# Without a terminal nobody could type a password.
if [ -t 0 ]; then sudo='sudo'; else sudo='sudo -n'; fi

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else $sudo "$@"; fi
}

apt_install() { # PACKAGE...
  # sudo would not pass the variable on. Without recommended packages: slime recommends a graphical Emacs.
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $release "$@" \
    </dev/null
}

can_install() { # PACKAGE... : as far as apt-get can say without doing it
  # shellcheck disable=SC2086
  apt-get -q -s install --no-install-recommends $release "$@" >/dev/null 2>&1
}

# With an Emacs from a release's backports, its slime needs other packages from there too.
choose_release() {
  # shellcheck disable=SC2086
  can_install $packages && return
  name=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null)
  release="-t ${name:-stable}-backports"
  # shellcheck disable=SC2086
  can_install $packages && return
  release=''
  without=$(echo " $packages " | sed 's/ slime cl-swank / /')
  # shellcheck disable=SC2086
  if [ "$without" != " $packages " ] && can_install $without; then
    echo "SLIME's packages do not fit the installed Emacs, so they are left out; in Emacs: M-x package-install RET sly" >&2
    packages=$without
  fi
}

# Nothing where the lists of packages aren't there yet.
download_size() {
  # shellcheck disable=SC2086
  apt-get -q install --print-uris -y --no-install-recommends $release $packages 2>/dev/null |
    awk '$3 ~ /^[0-9]+$/ { bytes += $3 } END { if (bytes) printf " (%d MB to download)", bytes / 1000000 + 1 }'
}

install() {
  echo "Missing:$by_hand"
  have apt-get || explain "Please install these with your system's package manager, then try again."
  if [ "$(id -u)" -ne 0 ] && ! have sudo; then
    explain "Please install these as root (sudo is not there), then try again."
  fi
  echo "Debian packages:$packages$(download_size)"
  agreed || explain "Nothing was installed."
  as_root true || explain "Nothing was installed: sudo wants a password, and there is no terminal to type it in."
  as_root apt-get -q update || echo "apt-get update failed; trying with the lists that are there." >&2
  choose_release
  # shellcheck disable=SC2086
  [ -z "${packages# }" ] || apt_install $packages ||
    explain "apt-get could not install what is missing; what it says is above."
}

install_welcome() {
  if [ "$(id -u)" -ne 0 ] && ! have sudo; then return; fi
  echo "Debian packages that some tests use:$welcome"
  if { [ -z "${YES:-}${CI:-}" ] && { [ ! -t 0 ] || [ ! -t 1 ]; }; } || ! agreed; then
    echo "Not installed; the tests that use them are skipped."
    return
  fi
  [ -n "$packages" ] || as_root apt-get -q update >/dev/null 2>&1
  # shellcheck disable=SC2086
  apt_install $welcome ||
    echo "apt-get could not install them; the tests that use them are skipped." >&2
}

case " $* " in *' build '* | *' lint '*) check_rust ;; esac
ask_emacs
for purpose in "$@"; do
  case "$purpose" in
    build) check_emacs; check_compiler ;;
    chat) check_image ;;
    test)
      have tmux || want tmux 'tmux, for the test in a terminal'
      check_slime
      check_lint
      check_frameworks ;;
    manual) check_emacs; check_texinfo ;;
    lint) check_emacs; check_compiler; check_lint ;;
    *) echo "setup.sh: unknown purpose $purpose" >&2; exit 2 ;;
  esac
done

[ -z "$packages" ] || install
[ -z "$welcome" ] || install_welcome
if [ -n "$unmended" ]; then
  echo "Still missing:$unmended" >&2
  exit 1
fi
