// SPDX-License-Identifier: GPL-3.0-or-later
//! Programs that run for calls: real ones, which fork, never end, flood, print anything and want input; what
//! the user is asked about them, and what rules cover.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agent_q_core::builtin::programs;
use agent_q_core::call::batch::PlanMode;
use agent_q_core::workspace::ProjectSettings;
use tempfile::TempDir;

use crate::executor_bench::*;

struct Ground {
    bench: Bench,
    folder: TempDir,
}

impl Ground {
    /// Takes RULE for the chat.
    fn take(&self, mut rule: Rule) {
        rule.scope = Scope::Chat(7);
        let mut rules = self.bench.executor.rules.lock().unwrap();
        rules.add(rule).unwrap();
    }

    fn with(approval: Approval, files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            if text.starts_with("#!") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        let mut bench = bench(approval);
        for tool in programs::tools() {
            bench.batch.tools.register(tool);
        }
        bench.batch.workspace.set_ground(&ProjectSettings {
            root: Some(folder.path().to_string_lossy().into_owned()),
            private: None,
        });
        bench.batch.place = TurnPlace::new(1, 7, Some(folder.path()), None);
        Self { bench, folder }
    }

    /// One in which a rule lets everything run.
    fn open(files: &[(&str, &str)]) -> Self {
        let ground = Self::with(Approval::None, files);
        let mut rule = Rule::new(Effect::Allow, programs::NAME, Scope::Chat(7));
        rule.dangerous = Floor::Waived;
        rule.arguments = vec![agent_q_core::rules::ArgumentPattern {
            name: "program".to_owned(),
            pattern: agent_q_core::rules::TextPattern::Matches("sh|git|cat|[./a-z-]+".to_owned()),
        }];
        ground
            .bench
            .executor
            .rules
            .lock()
            .unwrap()
            .add(rule)
            .unwrap();
        ground
    }

    fn emacs_is_asked(&self) {
        let path = std::env::var("PATH").unwrap();
        let path: Vec<&str> = path.split(':').collect();
        let variables = [
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "HOME=/nowhere",
            "MY_API_KEY=hidden-key",
        ];
        let reply = json!({"path": path, "variables": variables}).to_string();
        let mut replies = self.bench.emacs.replies.lock().unwrap();
        for _ in 0..4 {
            replies.push_back(EmacsReply::done(reply.clone()));
        }
    }

    async fn run(&self, arguments: Value) -> CallResult {
        self.emacs_is_asked();
        let calls = [call("c", programs::NAME, arguments)];
        let result = self.bench.run(&calls).await.pop().unwrap();
        self.bench.emacs.replies.lock().unwrap().clear();
        result
    }

    async fn sh(&self, script: &str, timeout: f64) -> CallResult {
        self.run(json!({"program": "sh", "arguments": ["-c", script], "timeout": timeout}))
            .await
    }

    /// The reason for which the user is asked about ARGUMENTS, and the rules that are offered in the project.
    async fn asked(&self, arguments: Value) -> (String, Vec<(Width, Rule)>) {
        self.emacs_is_asked();
        let asked = self
            .bench
            .asked_about(programs::NAME, arguments, "project")
            .await;
        self.bench.emacs.replies.lock().unwrap().clear();
        asked
    }
}

/// Whether a process with TEXT in its command line runs.
fn runs(text: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|it| fs::read(it.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(text))
}

async fn until(what: impl Fn() -> bool) {
    for _ in 0..400 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came");
}

#[tokio::test]
async fn what_a_program_prints_is_the_result_in_its_order() {
    let ground = Ground::open(&[("a.txt", "")]);
    let done = ground
        .sh("echo one; echo two >&2; echo three; ls", 60.0)
        .await;
    assert_eq!(
        told(&done),
        ("c", CallOutcome::Succeeded, "one\ntwo\nthree\na.txt")
    );
    let failed = ground.sh("echo no >&2; exit 3", 60.0).await;
    assert_eq!(failed.outcome, CallOutcome::Failed);
    assert!(
        failed
            .content
            .starts_with("`sh -c 'echo no >&2; exit 3'` ended with status 3.\nno"),
        "{}",
        failed.content
    );
    assert!(failed.content.contains("MY_API_KEY") && !failed.content.contains("hidden-key"));
    assert!(failed.source.is_some(), "it is marked as data");
    let silent = ground.sh(":", 60.0).await;
    assert_eq!(silent.content, "It printed nothing.");
    let killed = ground.sh("kill -9 $$", 60.0).await;
    assert!(
        killed.content.contains("was ended by signal 9"),
        "{}",
        killed.content
    );
    assert_eq!(ground.bench.audited().len(), 8);
}

#[tokio::test]
async fn programs_get_no_input_no_terminal_and_no_secrets() {
    let ground = Ground::open(&[]);
    let script = "cat; echo $TERM $GIT_TERMINAL_PROMPT \"$MY_API_KEY\" $HOME; git config --get-all x.y || true";
    let done = ground.sh(script, 60.0).await;
    assert_eq!(done.content, "dumb 0  /nowhere", "{}", done.content);
}

#[tokio::test]
async fn a_flood_keeps_its_ends_and_what_is_no_text_is_counted() {
    let ground = Ground::open(&[]);
    let flood = "echo first; head -c 50000000 /dev/zero | tr '\\0' x | fold -w 99; echo last";
    let done = ground.sh(flood, 60.0).await;
    assert_eq!(done.outcome, CallOutcome::Succeeded, "{}", done.content);
    assert!(done.content.starts_with("first\nxxx") && done.content.ends_with("last"));
    assert!(
        done.content
            .contains(" bytes left out; it printed 505052 lines "),
        "{}",
        done.content
    );
    assert!(done.content.len() < 16 * 1024);
    let binary = ground.sh("head -c 5000 /dev/zero", 60.0).await;
    assert_eq!(binary.content, "It printed 5000 bytes that are not text.");
    let odd = ground
        .sh("printf 'a\\033[1mb\\033[0m\\007\\377\\n'", 60.0)
        .await;
    assert_eq!(odd.content, "ab\\u{7}\u{fffd}");
}

#[tokio::test]
async fn a_program_that_never_ends_is_stopped_with_all_that_it_started() {
    let ground = Ground::open(&[]);
    let late = ground
        .sh("trap '' TERM; echo begun; sleep 4711.5 & sleep 4711.5", 0.5)
        .await;
    assert_eq!(late.outcome, CallOutcome::Failed);
    assert!(
        late.content
            .contains("was stopped after 0.5 s, its time limit.\nbegun"),
        "{}",
        late.content
    );
    until(|| !runs("4711.5")).await;
}

#[tokio::test]
async fn cancelling_stops_grandchildren() {
    let ground = Ground::open(&[]);
    let cancel = ground.bench.batch.cancel.clone();
    let run = ground.sh("sh -c 'sleep 4712.5; true' & sleep 4712.5", 60.0);
    let stop = async {
        until(|| runs("sleep\x004712.5") || runs("4712.5")).await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(run, stop);
    assert_eq!(result.outcome, CallOutcome::Cancelled);
    until(|| !runs("4712.5")).await;
}

#[tokio::test]
async fn what_a_program_leaves_running_is_stopped_and_said() {
    let ground = Ground::open(&[]);
    let done = ground.sh("sleep 4713.5 & echo done", 60.0).await;
    assert_eq!(
        done.content,
        "done\n(Processes that it left running were stopped.)"
    );
    until(|| !runs("4713.5")).await;
}

#[tokio::test]
async fn what_is_printed_is_shown_while_it_runs() {
    let ground = Ground::open(&[]);
    let run = ground.sh(
        "echo begun; while [ ! -e go ]; do sleep 0.05; done; echo ended",
        60.0,
    );
    let look = async {
        let shown = ground.bench.emacs.wait_for(|event| match event {
            Event::CallProgress { output, .. } => output.clone(),
            _ => None,
        });
        assert_eq!(shown.await, ("begun\n".to_owned(), 6));
        fs::write(ground.folder.path().join("go"), "").unwrap();
    };
    let (result, ()) = tokio::join!(run, look);
    assert_eq!(result.content, "begun\nended");
}

#[tokio::test]
async fn what_cannot_run_says_why_and_asks_nobody() {
    let ground = Ground::with(Approval::Ask, &[("data.txt", "x"), ("bare", "echo hi\n")]);
    fs::set_permissions(
        ground.folder.path().join("bare"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    for (arguments, said) in [
        (
            json!({"program": "no-such-program"}),
            "There is no program 'no-such-program' in the directories of Emacs's exec-path.",
        ),
        (
            json!({"program": "./data.txt"}),
            "'./data.txt' is not an executable file.",
        ),
        (json!({"program": "./none"}), "There is no file './none'."),
        (
            json!({"program": "git status"}),
            "There is no shell: `program` is the name alone, and each argument is a string in `arguments`.",
        ),
        (json!({"program": ""}), "The program has no name."),
        (
            json!({"program": "git", "arguments": ["a\0b"]}),
            "A program can't be given the character U+0000.",
        ),
        (
            json!({"program": "git", "directory": "none"}),
            "'none' does not exist.",
        ),
        (
            json!({"program": "git", "directory": "data.txt"}),
            "'data.txt' is not a directory.",
        ),
        (
            json!({"program": "git", "arguments": ["x".repeat(200_000)]}),
            "The arguments are longer than anybody would read. Write a file, and give its name.",
        ),
    ] {
        let result = ground.run(arguments).await;
        assert_eq!(told(&result), ("c", CallOutcome::Failed, said));
    }
    let ground = Ground::open(&[("bare", "echo hi\n")]);
    fs::set_permissions(
        ground.folder.path().join("bare"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let result = ground.run(json!({"program": "./bare"})).await;
    assert!(
        result
            .content
            .ends_with("A script needs a first line such as #!/bin/sh."),
        "{}",
        result.content
    );
}

#[tokio::test]
async fn the_request_tells_the_real_program_and_what_it_may_reach() {
    let ground = Ground::with(
        Approval::Ask,
        &[("run.sh", "#!/bin/sh\n"), ("sub/x", ""), (".env", "k=1")],
    );
    let real = |name: &str| {
        let path = std::env::var("PATH").unwrap();
        let found = path
            .split(':')
            .map(|it| Path::new(it).join(name))
            .find(|it| it.exists());
        found.unwrap().canonicalize().unwrap().display().to_string()
    };
    let (reason, rules) = ground
        .asked(json!({"program": "git", "arguments": ["log", "-3"]}))
        .await;
    assert_eq!(
        reason,
        format!("runs {} in the project's root", real("git"))
    );
    assert_eq!(
        rules[0].1.describe_beside_its_call(),
        format!(
            "Always run `git log`, the program {}, with any of its plain options, in the project {}.",
            real("git"),
            ground.folder.path().canonicalize().unwrap().display()
        )
    );
    assert_eq!(rules.len(), 2);
    for (arguments, said) in [
        (
            json!({"program": "sh", "arguments": ["-c", "x"]}),
            "it is a shell, which can run any program",
        ),
        (
            json!({"program": "env", "arguments": ["git", "log"]}),
            "it is a program that runs the one that its arguments name",
        ),
        (
            json!({"program": "python3", "arguments": ["-c", "1"]}),
            "it is an interpreter, which can run any code",
        ),
        (
            json!({"program": "./run.sh"}),
            "it is a file of the project, which edits can change",
        ),
        (
            json!({"program": "git", "arguments": ["log", "--", ".env"]}),
            ".env', which may hold secrets (private files: ",
        ),
        (
            json!({"program": "git", "arguments": ["show", "HEAD:.env"]}),
            ".env', which may hold secrets (private files: ",
        ),
        (
            json!({"program": "cat", "arguments": ["../../etc/passwd"]}),
            "names '../../etc/passwd', which is outside the project",
        ),
        (
            json!({"program": "cat", "arguments": ["/etc/passwd"]}),
            "names '/etc/passwd', which is outside the project",
        ),
        (
            json!({"program": "git", "arguments": ["status"], "directory": "/"}),
            "'/' is outside the project.",
        ),
    ] {
        if arguments["program"] == "python3"
            && std::process::Command::new("python3")
                .arg("-V")
                .output()
                .is_err()
        {
            continue;
        }
        let (reason, rules) = ground.asked(arguments).await;
        assert!(reason.contains(said), "{reason}");
        assert_eq!(rules.len(), 1, "{reason}");
    }
}

#[tokio::test]
async fn a_rule_for_a_subcommand_covers_its_plain_options_alone() {
    let ground = Ground::with(Approval::None, &[("sub/a.txt", ""), ("a.txt", "")]);
    let offered = Ground::with(Approval::Ask, &[]);
    let (_, rules) = offered
        .asked(json!({"program": "git", "arguments": ["log"]}))
        .await;
    ground.take(rules[0].1.clone());
    let git = |arguments: &[&str]| json!({"program": "git", "arguments": arguments});
    for allowed in [
        git(&["log"]),
        git(&["log", "-3", "--oneline", "--stat", "--", "a.txt"]),
        git(&["log", "--since=2020", "--author=x", "a..b"]),
    ] {
        let result = ground.run(allowed).await;
        assert_eq!(result.consent, Consent::ByRule, "{}", result.content);
    }
    for refused in [
        git(&["status"]),
        git(&["push"]),
        git(&["log", "--output=x"]),
        git(&["log", "--outp=x"]),
        git(&["log", "--ext-diff"]),
        git(&["log", "-n", "3", "--show-signature"]),
        git(&["-c", "core.pager=x", "log"]),
        git(&["-C", "/", "log"]),
        git(&["--exec-path=.", "log"]),
        git(&["--git-dir=sub", "log"]),
        git(&["log", "/etc/passwd"]),
        git(&["log", "../x"]),
        json!({"program": "git", "arguments": ["log"], "directory": "sub"}),
        json!({"program": "/usr/bin/env", "arguments": ["git", "log"]}),
        json!({"program": "./git", "arguments": ["log"]}),
    ] {
        let result = ground.run(refused.clone()).await;
        assert_eq!(result.outcome, CallOutcome::Failed, "{refused}");
        assert_ne!(result.consent, Consent::ByRule, "{refused}");
    }
}

#[tokio::test]
async fn other_files_of_the_same_name_are_other_programs() {
    let ground = Ground::with(Approval::None, &[("bin/git", "#!/bin/sh\necho evil\n")]);
    let offered = Ground::with(Approval::Ask, &[]);
    let (_, rules) = offered
        .asked(json!({"program": "git", "arguments": ["log"]}))
        .await;
    for (_, rule) in rules {
        ground.take(rule);
    }
    let reply = json!({"path": [ground.folder.path().join("bin")], "variables": []}).to_string();
    ground
        .bench
        .emacs
        .replies
        .lock()
        .unwrap()
        .push_back(EmacsReply::done(reply));
    let calls = [call(
        "c",
        programs::NAME,
        json!({"program": "git", "arguments": ["log"]}),
    )];
    let result = ground.bench.run(&calls).await.pop().unwrap();
    assert_eq!(result.consent, Consent::Unavailable, "{}", result.content);
}

/// Files that edits may make look like a repository, whose settings name programs.
#[tokio::test]
async fn git_runs_no_program_that_files_of_the_project_name() {
    let settings = |root: &Path| {
        format!(
            "[core]\n repositoryformatversion = 0\n worktree = {}\n fsmonitor = \"touch ran; false\"\n",
            root.display()
        )
    };
    for is_bare in [true, false] {
        let ground = Ground::open(&[]);
        let root = ground.folder.path();
        let repository = match is_bare {
            true => root.to_owned(),
            false => root.join(".git"),
        };
        fs::create_dir_all(repository.join("objects")).unwrap();
        fs::create_dir_all(repository.join("refs")).unwrap();
        fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(repository.join("config"), settings(root)).unwrap();
        let status = ground
            .run(json!({"program": "git", "arguments": ["status"]}))
            .await;
        let outcome = match is_bare {
            true => CallOutcome::Failed,
            false => CallOutcome::Succeeded,
        };
        assert_eq!(status.outcome, outcome, "{}", status.content);
        assert!(!root.join("ran").exists(), "{}", status.content);
    }
}

#[tokio::test]
async fn no_name_of_a_file_hides_where_it_leads() {
    let ground = Ground::with(Approval::Ask, &[(".env", "k=1")]);
    for name in ["a\nb", " c", "d ", "e=f", "~g"] {
        std::os::unix::fs::symlink(".env", ground.folder.path().join(name)).unwrap();
        let (reason, rules) = ground
            .asked(json!({"program": "cat", "arguments": [name]}))
            .await;
        assert!(reason.contains("names '"), "{name:?}: {reason}");
        assert_eq!(rules.len(), 1, "{name:?}: {reason}");
    }
    let message = "Fix a/b:\n/etc/passwd, as ~x said = y";
    let (reason, rules) = ground
        .asked(json!({"program": "git", "arguments": ["commit", "-m", message]}))
        .await;
    assert_eq!(rules.len(), 2, "{reason}");
}

/// As requests for pages say what the chat has read.
#[tokio::test]
async fn a_private_file_that_a_program_may_read_is_known() {
    let ground = Ground::open(&[(".env", "k=1"), ("a.txt", "")]);
    let known = || ground.bench.batch.workspace.known_secrets();
    for (name, is_private) in [("a.txt", false), (".env", true)] {
        let read = ground
            .run(json!({"program": "cat", "arguments": [name]}))
            .await;
        assert_eq!(read.outcome, CallOutcome::Succeeded, "{}", read.content);
        let is_known = known().iter().any(|it| it.ends_with(".env"));
        assert_eq!(is_known, is_private, "{name}");
    }
}

#[tokio::test]
async fn what_programs_bring_from_elsewhere_is_foreign() {
    for (arguments, is_foreign) in [
        (
            json!({"program": "sh", "arguments": ["-c", "true curl; echo x"]}),
            true,
        ),
        (
            json!({"program": "sh", "arguments": ["-c", "echo https://example.org/"]}),
            true,
        ),
        (
            json!({"program": "env", "arguments": ["echo", "wget"]}),
            true,
        ),
        (
            json!({"program": "sh", "arguments": ["-c", "echo curly"]}),
            false,
        ),
        (json!({"program": "cat", "arguments": ["curl"]}), false),
    ] {
        let ground = Ground::open(&[("curl", "")]);
        let result = ground.run(arguments.clone()).await;
        let source = result.source.unwrap().to_string();
        assert_eq!(
            source.contains("from outside the project"),
            is_foreign,
            "{arguments}: {source}"
        );
    }
}

#[tokio::test]
async fn plan_mode_runs_what_changes_nothing_and_a_rule_allows() {
    let mut ground = Ground::open(&[]);
    ground.bench.batch.plan = PlanMode::Look;
    let looks = ground
        .run(json!({"program": "ls", "arguments": ["-l"]}))
        .await;
    assert_eq!(looks.outcome, CallOutcome::Succeeded, "{}", looks.content);
    let changes = ground
        .run(json!({"program": "git", "arguments": ["add", "x"]}))
        .await;
    assert_eq!(changes.outcome, CallOutcome::Denied);
    assert!(
        changes
            .content
            .contains("run_command could change something"),
        "{}",
        changes.content
    );
    let mut ground = Ground::with(Approval::Ask, &[]);
    ground.bench.batch.plan = PlanMode::Look;
    let unruled = ground.run(json!({"program": "ls"})).await;
    assert!(
        unruled
            .content
            .contains("no rule of the user's allows this call, which changes nothing"),
        "{}",
        unruled.content
    );
}
