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
    others: BesideOptions,
}

/// What may stand among the arguments beside the options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BesideOptions {
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

/// Not `git grep`, which searches all files, private ones among them.
const GIT: &[Subcommand] = &[
    Subcommand::new(
        "status",
        LOOKS,
        "-s --short -b --branch --porcelain --porcelain= --long -u -uno -uall --untracked-files= --ignored -v --show-stash",
        BesideOptions::Some,
    ),
    Subcommand::new("log", LOOKS, "", BesideOptions::Some),
    Subcommand::new("show", LOOKS, "", BesideOptions::Some),
    Subcommand::new("diff", LOOKS, "", BesideOptions::Some),
    Subcommand::new(
        "blame",
        LOOKS,
        "-L -w -M -C -e -s -l -t --date= --porcelain --line-porcelain",
        BesideOptions::Some,
    ),
    Subcommand::new(
        "ls-files",
        LOOKS,
        "-c -d -m -o -s -t --cached --deleted --modified --others --stage --exclude-standard",
        BesideOptions::Some,
    ),
    Subcommand::new(
        "ls-tree",
        LOOKS,
        "-r -t -d -l --name-only",
        BesideOptions::Some,
    ),
    Subcommand::new(
        "describe",
        LOOKS,
        "--tags --all --always --dirty --long",
        BesideOptions::Some,
    ),
    Subcommand::new(
        "shortlog",
        LOOKS,
        "-s -n -e -sn -sne --all --since= --no-merges",
        BesideOptions::Some,
    ),
    Subcommand::new(
        "rev-parse",
        LOOKS,
        "--show-toplevel --abbrev-ref --short --verify --git-dir --is-inside-work-tree HEAD",
        BesideOptions::Some,
    ),
    Subcommand::new("merge-base", LOOKS, "", BesideOptions::Some),
    Subcommand::new(
        "branch",
        LOOKS,
        "-a -r -v -vv --list --all --remotes --show-current",
        BesideOptions::None,
    ),
    Subcommand::new("tag", LOOKS, "-l --list -n", BesideOptions::None),
    Subcommand::new("remote", LOOKS, "-v --verbose", BesideOptions::None),
    Subcommand::new(
        "add",
        CHANGES,
        "-A -u -v -n --all --update --dry-run",
        BesideOptions::Some,
    ),
    Subcommand::new(
        "commit",
        CHANGES,
        "-m -a -am --all --message= -q --quiet -v",
        BesideOptions::Some,
    ),
];

const BUILDS: &str = "-q --quiet -v --verbose -r --release --lib --bins --tests --examples --all-targets --workspace \
     --all --all-features --no-default-features --features --features= -F -p --package --package= --test --test= \
     --bin --bin= --example --example= --offline --locked --no-run --no-fail-fast -k --keep-going -j -j# --jobs=";

const CARGO: &[Subcommand] = &[
    Subcommand::new("check", CHANGES, BUILDS, BesideOptions::Some),
    Subcommand::new("build", CHANGES, BUILDS, BesideOptions::Some),
    Subcommand::new("test", CHANGES, BUILDS, BesideOptions::All),
    Subcommand::new("clippy", CHANGES, BUILDS, BesideOptions::Some),
    Subcommand::new("doc", CHANGES, BUILDS, BesideOptions::Some),
    Subcommand::new("fmt", CHANGES, "--check --all -v -q", BesideOptions::None),
];

const GO: &[Subcommand] = &[
    Subcommand::new("build", CHANGES, "-v -race", BesideOptions::Some),
    Subcommand::new(
        "test",
        CHANGES,
        "-v -race -short -count= -run -run= -cover",
        BesideOptions::Some,
    ),
    Subcommand::new("vet", CHANGES, "-v", BesideOptions::Some),
];

const NPM: &[Subcommand] = &[
    Subcommand::new("test", CHANGES, "--silent -s", BesideOptions::None),
    Subcommand::new("run", CHANGES, "--silent -s", BesideOptions::OneName),
];

/// Of `make` the target is the subcommand.
const MAKE: Subcommand = Subcommand::new(
    "",
    CHANGES,
    "-j -j# -k -s -n -B -w --silent --dry-run --keep-going --jobs= --no-print-directory",
    BesideOptions::OneName,
);

/// Programs without subcommands that only show files that they are given. They search no folders: private files
/// could be in there.
const LOOKING: &[Subcommand] = &[
    Subcommand::new(
        "ls",
        LOOKS,
        "-a -l -h -t -r -R -1 -d -la -al -lh -lah -F --all",
        BesideOptions::Some,
    ),
    Subcommand::new("wc", LOOKS, "-l -w -c -m", BesideOptions::Some),
    Subcommand::new("cat", LOOKS, "-n -A -s", BesideOptions::Some),
    Subcommand::new("head", LOOKS, "-n -c -#", BesideOptions::Some),
    Subcommand::new("tail", LOOKS, "-n -c -#", BesideOptions::Some),
    Subcommand::new(
        "grep",
        LOOKS,
        "-n -i -w -l -L -c -h -H -E -F -P -v -e -A -B -C -A# -B# -C#",
        BesideOptions::Some,
    ),
    Subcommand::new("du", LOOKS, "-s -h -sh -a -c -d", BesideOptions::Some),
    Subcommand::new("file", LOOKS, "-b -i", BesideOptions::Some),
    Subcommand::new("stat", LOOKS, "-c", BesideOptions::Some),
];

impl Subcommand {
    const fn new(
        name: &'static str,
        changes: Changes,
        options: &'static str,
        others: BesideOptions,
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
                    BesideOptions::All | BesideOptions::Some => true,
                    BesideOptions::None | BesideOptions::OneName => others == 0,
                };
            }
            match argument.starts_with('-') {
                true if options().any(|option| fits(option, argument)) => {}
                true => return false,
                false => others += 1,
            }
        }
        match self.others {
            BesideOptions::None => others == 0,
            BesideOptions::OneName => others <= 1,
            BesideOptions::Some | BesideOptions::All => true,
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
    if found.others == BesideOptions::OneName {
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
const FETCHERS: &[&str] = &[
    "aria2c", "curl", "elinks", "ftp", "gh", "glab", "http", "https", "links", "lynx", "nc",
    "ncat", "netcat", "rsync", "scp", "sftp", "socat", "ssh", "telnet", "w3m", "wget", "xh",
];

/// Whether what the program called NAME prints may come from other machines.
pub(super) fn is_fetcher(name: &str) -> bool {
    FETCHERS.contains(&name)
}

/// Whether ARGUMENT of a program that runs others names one of those, or an address.
pub(super) fn names_fetcher(argument: &str) -> bool {
    let mut words = argument.split(|it: char| !it.is_ascii_alphanumeric() && !"-_.".contains(it));
    argument.contains("://") || words.any(is_fetcher)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(line: &str) -> Option<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (name, arguments) = words.split_first()?;
        plain(name, arguments).map(|it| it.words)
    }

    #[test]
    fn a_command_line_is_known_by_its_subcommand() {
        for (line, known) in [
            ("git log -3 --stat a..b -- x", "git log"),
            ("git log -n 3 -U5", "git log"),
            ("git diff --cached", "git diff"),
            ("git branch -vv", "git branch"),
            ("git commit -m x", "git commit"),
            ("make", "make"),
            ("make -n -j4 test", "make test"),
            ("cargo test --lib x -- --nocapture", "cargo test"),
            ("npm run lint", "npm run lint"),
            ("ls -l src", "ls"),
        ] {
            assert_eq!(words(line).as_deref(), Some(known), "{line}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_not_known() {
        for line in [
            "git",
            "git --version",
            "git -c core.pager=x log",
            "git -C / status",
            "git --git-dir=x log",
            "git push",
            "git log --output=x",
            "git log --outpu=x",
            "git log -O x",
            "git log --ext-diff",
            "git diff --no-index a b",
            "git grep -Oless x",
            "git grep --no-index x",
            "git grep x",
            "git branch new",
            "git branch -D main",
            "git tag v1",
            "git remote add x y",
            "git -p log",
            "git log -",
            "git log -3x",
            "make -f x",
            "make --file=x test",
            "make -C x",
            "make test SHELL=x",
            "make SHELL=x",
            "make a b",
            "make --eval=x",
            "make -- -f x",
            "cargo --config x build",
            "cargo build --config x",
            "cargo +nightly build",
            "cargo run",
            "cargo fmt -- --config-path x",
            "cargo build --manifest-path x",
            "npm run",
            "npm run a b",
            "npm run a -- b",
            "npm install",
            "go build -toolexec x",
            "go test -exec x",
            "tail -f x",
            "grep -f x y",
            "grep -r key",
            "find . -delete",
            "env git log",
            "sh -c x",
        ] {
            assert_eq!(words(line), None, "{line}");
        }
    }

    proptest! {
        /// An option that isn't in the tables is found wherever it stands, but behind `--`.
        #[test]
        fn one_unknown_option_is_enough(
            subcommand in prop::sample::select(vec!["status", "log", "show", "diff", "blame", "commit"]),
            others in prop::collection::vec("-q|--stat|-3|[a-z]{1,8}|-m", 0..6),
            unknown in "--(output|exec|ext-diff|no-index|amend|contents|config-env|upload-pack)(=[a-z/]{0,5})?",
            at in 0..7_usize,
        ) {
            let mut arguments: Vec<String> = others.clone();
            arguments.insert(at.min(others.len()), unknown);
            arguments.insert(0, subcommand.to_owned());
            prop_assert_eq!(plain("git", &arguments), None);
        }
    }

    #[test]
    fn programs_that_run_others_are_known() {
        for name in [
            "sh",
            "bash",
            "env",
            "sudo",
            "python3.12",
            "perl",
            "sbcl",
            "find",
            "ssh",
        ] {
            assert!(runner(name).is_some(), "{name}");
        }
        for name in ["git", "make", "ls", ""] {
            assert_eq!(runner(name), None, "{name}");
        }
    }
}
