// SPDX-License-Identifier: GPL-3.0-or-later
//! Command lines that are known well enough for a rule about a program and its subcommand, such as `git log`:
//! those whose options are all in these tables. An option that is missing here may write files, run another
//! program or lead elsewhere, so such a call is asked about, whatever rules there are for its subcommand.

/// What a command line with plain options does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plain {
    /// The program and its subcommand, as one would type them.
    pub(super) words: String,
    pub(super) changes: Changes,
}

/// Whether a program changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    Nothing,
    Something,
}

/// A subcommand, and what it may be given.
struct Subcommand {
    name: &'static str,
    changes: Changes,
    /// Its plain options, separated by blanks: `--since=` takes a value, `-#` is a number.
    options: &'static str,
    others: Others,
}

/// What may stand among the arguments beside the options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    None,
    Some,
    /// One word, which belongs to the subcommand.
    OneName,
    /// Also whatever follows `--`, which is for the user's own program.
    All,
}

const LOOKS: Changes = Changes::Nothing;
const CHANGES: Changes = Changes::Something;

const DIFFERENCES: &str = "-p --patch -u -s --no-patch --stat --numstat --shortstat --summary --name-only \
     --name-status --cached --staged --no-color --word-diff -w -b --ignore-all-space --ignore-space-change \
     --no-ext-diff --no-textconv --no-renames -M --find-renames --diff-filter= --unified= --exit-code -q --quiet \
     --check --raw --minimal --patience --histogram --relative --merge-base -U#";

const COMMITS: &str = "--oneline --graph --all --branches --tags --decorate --no-decorate -# -n -n# --max-count= \
     --skip= --since= --until= --after= --before= --author= --committer= --grep= -i --follow --format= --pretty \
     --pretty= --reverse --merges --no-merges --first-parent --date= --abbrev-commit --no-abbrev-commit \
     --topo-order --date-order --left-right --cherry-pick --no-walk";

const GIT: &[Subcommand] = &[
    Subcommand::new(
        "status",
        LOOKS,
        "-s --short -b --branch --porcelain --porcelain= --long -u -uno -uall --untracked-files= --ignored -v --show-stash",
        Others::Some,
    ),
    Subcommand::new("log", LOOKS, "", Others::Some),
    Subcommand::new("show", LOOKS, "", Others::Some),
    Subcommand::new("diff", LOOKS, "", Others::Some),
    Subcommand::new(
        "blame",
        LOOKS,
        "-L -w -M -C -e -s -l -t --date= --porcelain --line-porcelain",
        Others::Some,
    ),
    Subcommand::new(
        "grep",
        LOOKS,
        "-n -i -w -l -L -c -h -H -E -F -P -v -e --line-number --ignore-case --word-regexp --files-with-matches --count --cached --heading --break",
        Others::Some,
    ),
    Subcommand::new(
        "ls-files",
        LOOKS,
        "-c -d -m -o -s -t --cached --deleted --modified --others --stage --exclude-standard",
        Others::Some,
    ),
    Subcommand::new("ls-tree", LOOKS, "-r -t -d -l --name-only", Others::Some),
    Subcommand::new(
        "describe",
        LOOKS,
        "--tags --all --always --dirty --long",
        Others::Some,
    ),
    Subcommand::new(
        "shortlog",
        LOOKS,
        "-s -n -e -sn -sne --all --since= --no-merges",
        Others::Some,
    ),
    Subcommand::new(
        "rev-parse",
        LOOKS,
        "--show-toplevel --abbrev-ref --short --verify --git-dir --is-inside-work-tree HEAD",
        Others::Some,
    ),
    Subcommand::new("merge-base", LOOKS, "", Others::Some),
    Subcommand::new(
        "branch",
        LOOKS,
        "-a -r -v -vv --list --all --remotes --show-current",
        Others::None,
    ),
    Subcommand::new("tag", LOOKS, "-l --list -n", Others::None),
    Subcommand::new("remote", LOOKS, "-v --verbose", Others::None),
    Subcommand::new(
        "add",
        CHANGES,
        "-A -u -v -n --all --update --dry-run",
        Others::Some,
    ),
    Subcommand::new(
        "commit",
        CHANGES,
        "-m -a -am --all --message= -q --quiet -v",
        Others::Some,
    ),
];

const BUILDS: &str = "-q --quiet -v --verbose -r --release --lib --bins --tests --examples --all-targets --workspace \
     --all --all-features --no-default-features --features --features= -F -p --package --package= --test --test= \
     --bin --bin= --example --example= --offline --locked --no-run --no-fail-fast -k --keep-going -j -j# --jobs=";

const CARGO: &[Subcommand] = &[
    Subcommand::new("check", CHANGES, BUILDS, Others::Some),
    Subcommand::new("build", CHANGES, BUILDS, Others::Some),
    Subcommand::new("test", CHANGES, BUILDS, Others::All),
    Subcommand::new("clippy", CHANGES, BUILDS, Others::Some),
    Subcommand::new("doc", CHANGES, BUILDS, Others::Some),
    Subcommand::new("fmt", CHANGES, "--check --all -v -q", Others::None),
];

const GO: &[Subcommand] = &[
    Subcommand::new("build", CHANGES, "-v -race", Others::Some),
    Subcommand::new(
        "test",
        CHANGES,
        "-v -race -short -count= -run -run= -cover",
        Others::Some,
    ),
    Subcommand::new("vet", CHANGES, "-v", Others::Some),
];

const NPM: &[Subcommand] = &[
    Subcommand::new("test", CHANGES, "--silent -s", Others::None),
    Subcommand::new("run", CHANGES, "--silent -s", Others::OneName),
];

/// Of `make` the target is the subcommand.
const MAKE: Subcommand = Subcommand::new(
    "",
    CHANGES,
    "-j -j# -k -s -n -B -w --silent --dry-run --keep-going --jobs= --no-print-directory",
    Others::OneName,
);

/// Programs without subcommands that only show files that they are given. They search no folders: private files
/// could be in there.
const LOOKING: &[Subcommand] = &[
    Subcommand::new(
        "ls",
        LOOKS,
        "-a -l -h -t -r -R -1 -d -la -al -lh -lah -F --all",
        Others::Some,
    ),
    Subcommand::new("wc", LOOKS, "-l -w -c -m", Others::Some),
    Subcommand::new("cat", LOOKS, "-n -A -s", Others::Some),
    Subcommand::new("head", LOOKS, "-n -c -#", Others::Some),
    Subcommand::new("tail", LOOKS, "-n -c -#", Others::Some),
    Subcommand::new(
        "grep",
        LOOKS,
        "-n -i -w -l -L -c -h -H -E -F -P -v -e -A -B -C -A# -B# -C#",
        Others::Some,
    ),
    Subcommand::new("du", LOOKS, "-s -h -sh -a -c -d", Others::Some),
    Subcommand::new("file", LOOKS, "-b -i", Others::Some),
    Subcommand::new("stat", LOOKS, "-c", Others::Some),
];

impl Subcommand {
    const fn new(
        name: &'static str,
        changes: Changes,
        options: &'static str,
        others: Others,
    ) -> Self {
        Self {
            name,
            changes,
            options,
            others,
        }
    }

    /// Whether ARGUMENTS are plain, those of a subcommand that also takes MORE options.
    fn takes(&self, arguments: &[String], more: &[&str]) -> bool {
        let options = || {
            let all = [self.options].into_iter().chain(more.iter().copied());
            all.flat_map(str::split_whitespace)
        };
        let mut others = 0;
        let mut rest = arguments.iter();
        for argument in rest.by_ref() {
            if argument == "--" {
                others += rest.len();
                return match self.others {
                    Others::All | Others::Some => true,
                    Others::None | Others::OneName => others == 0,
                };
            }
            match argument.starts_with('-') {
                true if options().any(|option| fits(option, argument)) => {}
                true => return false,
                false => others += 1,
            }
        }
        match self.others {
            Others::None => others == 0,
            Others::OneName => others <= 1,
            Others::Some | Others::All => true,
        }
    }
}

/// Whether ARGUMENT is OPTION of a table.
fn fits(option: &str, argument: &str) -> bool {
    if let Some(before) = option.strip_suffix('#') {
        let number = argument.strip_prefix(before);
        return number.is_some_and(|it| {
            !it.is_empty() && it.len() <= 6 && it.bytes().all(|it| it.is_ascii_digit())
        });
    }
    match option.ends_with('=') {
        true => argument.starts_with(option),
        false => argument == option,
    }
}

/// What the program called NAME does with ARGUMENTS, if these are plain.
pub(super) fn plain(name: &str, arguments: &[String]) -> Option<Plain> {
    let table = match name {
        "git" => GIT,
        "cargo" => CARGO,
        "go" => GO,
        "npm" => NPM,
        "make" | "gmake" => return made(name, arguments),
        _ => {
            let found = LOOKING.iter().find(|it| it.name == name)?;
            return found.takes(arguments, &[]).then(|| Plain {
                words: name.to_owned(),
                changes: found.changes,
            });
        }
    };
    let (first, rest) = arguments.split_first()?;
    let found = table.iter().find(|it| it.name == first)?;
    let more: &[&str] = match (name, found.name) {
        ("git", "log" | "show") => &[DIFFERENCES, COMMITS],
        ("git", "diff") => &[DIFFERENCES],
        _ => &[],
    };
    if !found.takes(rest, more) {
        return None;
    }
    let mut words = format!("{name} {first}");
    if found.others == Others::OneName {
        // A script of the project: each is another one.
        words.push(' ');
        words.push_str(named(rest)?);
    }
    let changes = found.changes;
    Some(Plain { words, changes })
}

/// The same of MAKE.
fn made(name: &str, arguments: &[String]) -> Option<Plain> {
    let target = named(arguments);
    // A variable that is set there can be the shell.
    if !MAKE.takes(arguments, &[]) || target.is_some_and(|it| it.contains('=')) {
        return None;
    }
    // An option whose value may be a word of its own, such as -j, has none: the word could be a target.
    let words = match target {
        Some(target) => format!("{name} {target}"),
        None => name.to_owned(),
    };
    let changes = MAKE.changes;
    Some(Plain { words, changes })
}

/// The first of ARGUMENTS that isn't an option.
fn named(arguments: &[String]) -> Option<&str> {
    let mut names = arguments.iter().filter(|it| !it.starts_with('-'));
    names.next().map(String::as_str)
}

/// What programs run other ones that their arguments name, or code that is in these.
const RUNNERS: &[(&str, &str)] = &[
    (
        "a shell, which can run any program",
        " sh bash dash zsh ksh ash csh tcsh fish busybox ",
    ),
    (
        "a program that runs the one that its arguments name",
        " env xargs sudo doas su nohup nice ionice timeout time watch setsid stdbuf strace script flock chroot unshare parallel find npx pnpx bunx uvx pipx ssh docker podman nix ",
    ),
    (
        "an interpreter, which can run any code",
        " python python2 python3 perl ruby node deno bun php lua tclsh guile sbcl ccl ecl clisp abcl alisp lisp emacs emacsclient awk gawk mawk sed vim ",
    ),
];

/// What the program called NAME is, if it runs other programs or code that its arguments name.
pub(super) fn runner(name: &str) -> Option<&'static str> {
    let name = name.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
    RUNNERS
        .iter()
        .find(|(_, names)| names.contains(&format!(" {name} ")))
        .map(|(what, _)| *what)
}

/// The programs that bring texts from other machines.
const FETCHING: &[&str] = &[
    "curl", "wget", "gh", "glab", "ssh", "scp", "rsync", "ftp", "nc", "telnet",
];

/// Whether what the program called NAME prints may come from other machines.
pub(super) fn fetches(name: &str) -> bool {
    FETCHING.contains(&name)
}
