// SPDX-License-Identifier: GPL-3.0-or-later
//! Which paths a project's tools may touch, judged and then used: a table of escapes, the races
//! between judging and using, and a property over generated trees with symbolic links.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agent_q_core::files::Trouble;
use agent_q_core::files::fingerprint::Fingerprint;
use agent_q_core::files::path::{Kind, PathPolicy, Resolved, Verdict};
use agent_q_core::files::verified::{self, Overwrite, Parents};
use proptest::prelude::*;
use tempfile::TempDir;

/// `base/project` with a few files, `base/project-secrets`, `base/outside`, `base/home`.
struct Ground {
    base: TempDir,
    policy: PathPolicy,
}

impl Ground {
    fn new() -> Self {
        let base = TempDir::new().unwrap();
        for folder in [
            "project/src/deep",
            "project-secrets",
            "outside/folder",
            "home/.ssh",
        ] {
            fs::create_dir_all(base.path().join(folder)).unwrap();
        }
        for (file, text) in [
            ("project/src/config.lisp", "(config)\n"),
            ("project/src/deep/a.lisp", "a"),
            ("project/.env", "SECRET=1"),
            ("project/.env.example", "SECRET="),
            ("project/server.PEM", "key"),
            ("project-secrets/keys", "sibling"),
            ("outside/passwd", "outside"),
            ("outside/folder/x", "x"),
            ("home/.ssh/config", "host"),
            ("home/.authinfo.gpg", "pw"),
            ("home/notes", "notes"),
        ] {
            fs::write(base.path().join(file), text).unwrap();
        }
        let policy = PathPolicy::new(
            &base.path().join("project"),
            Some(&base.path().join("home")),
        )
        .unwrap();
        Self { base, policy }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().canonicalize().unwrap().join(path)
    }

    fn judge(&self, path: &str) -> Verdict {
        self.policy.judge(path)
    }

    fn inside(&self, path: &str) -> Resolved {
        match self.judge(path) {
            Verdict::Inside(resolved) => resolved,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.at("project").join(name)).unwrap();
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Inside(_) => "inside",
        Verdict::Outside(_) => "outside",
        Verdict::Private { .. } => "private",
        Verdict::Refused(_) => "refused",
    }
}

#[test]
fn table_of_escapes() {
    let ground = Ground::new();
    ground.link("to-outside", ground.at("outside"));
    ground.link("to-file", ground.at("outside/passwd"));
    ground.link("to-home", "../home");
    ground.link("dangling", ground.at("outside/not-yet"));
    ground.link("inner", "src/deep");
    ground.link("chain", "to-outside/folder");
    ground.link("loop", "loop");
    ground.link("self", "/proc/self/root");
    let long_name = "n".repeat(256);
    let long_path = "deep/".repeat(1000);
    let project = ground.at("project").display().to_string();
    let absolute = |rest: &str| format!("{project}{rest}");
    let table: &[(&str, &str)] = &[
        ("", "inside"),
        (".", "inside"),
        ("./", "inside"),
        ("src/config.lisp", "inside"),
        ("src//./config.lisp", "inside"),
        ("src/../src/config.lisp", "inside"),
        ("src/new/deeper/file.lisp", "inside"),
        ("missing/../src/config.lisp", "inside"),
        ("inner/a.lisp", "inside"),
        ("inner/../config.lisp", "inside"),
        (&absolute(""), "inside"),
        (&absolute("/src/config.lisp"), "inside"),
        (&absolute("/../project/src"), "inside"),
        ("..", "outside"),
        ("../outside/passwd", "outside"),
        ("src/../../outside", "outside"),
        ("missing/../../outside/passwd", "outside"),
        ("../../../../../../../../../etc/passwd", "outside"),
        ("/etc/passwd", "outside"),
        ("/", "outside"),
        (&absolute("-secrets/keys"), "outside"),
        (&absolute("-new"), "outside"),
        ("../project-secrets/keys", "outside"),
        ("to-outside", "outside"),
        ("to-outside/passwd", "outside"),
        ("to-outside/new", "outside"),
        ("to-outside/../outside/new", "outside"),
        ("to-file", "outside"),
        ("dangling", "outside"),
        ("chain/x", "outside"),
        ("inner/../../../outside/passwd", "outside"),
        ("~/notes", "outside"),
        ("~", "outside"),
        ("~/../project/src/config.lisp", "inside"),
        ("~/.ssh/config", "private"),
        ("~/.SSH/config", "private"),
        ("~/.ssh/new", "private"),
        ("~/.ssh", "private"),
        ("to-home/.authinfo.gpg", "private"),
        ("~/.authinfo", "private"),
        (".env", "private"),
        (".ENV.local", "private"),
        (".env.example", "inside"),
        ("server.PEM", "private"),
        ("new/id_ed25519", "private"),
        (".git/hooks/pre-commit", "private"),
        (".git/HEAD", "inside"),
        ("~root/.bashrc", "refused"),
        ("~someone", "refused"),
        ("src/config.lisp/", "refused"),
        ("src/config.lisp/x", "refused"),
        ("src/config.lisp/../x", "refused"),
        ("loop", "refused"),
        ("loop/x", "refused"),
        ("/ssh:host:/etc/passwd", "refused"),
        ("/sudo::/etc/shadow", "refused"),
        ("//ssh:host:/etc/passwd", "refused"),
        ("/sudo:root@localhost:src/config.lisp", "refused"),
        ("/:/etc/passwd", "refused"),
        ("/dev/null", "refused"),
        ("/dev/../dev/zero", "refused"),
        ("/proc/self/environ", "refused"),
        ("/proc/self/cwd/x", "refused"),
        ("/sys/kernel", "refused"),
        ("self/etc/passwd", "refused"),
        ("src/a\0b", "refused"),
        (&long_name, "refused"),
        (&long_path, "refused"),
    ];
    for (path, expected) in table {
        let verdict = ground.judge(path);
        assert_eq!(word(&verdict), *expected, "{path}: {verdict:?}");
        if let Verdict::Refused(error) = verdict {
            assert!(
                error.message.ends_with('.') && error.message.len() < 300,
                "{error}"
            );
        }
    }
}

#[test]
fn pipes_and_sockets_are_refused() {
    let ground = Ground::new();
    let pipe = ground.at("project/pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(ground.at("project/socket")).unwrap();
    assert_eq!(word(&ground.judge("pipe")), "refused");
    assert_eq!(word(&ground.judge("socket")), "refused");
}

#[test]
fn a_remote_root_is_refused_and_a_linked_root_is_followed() {
    let ground = Ground::new();
    assert!(PathPolicy::new(Path::new("/ssh:host:/project"), None).is_err());
    assert!(PathPolicy::new(&ground.at("nowhere"), None).is_err());
    assert!(PathPolicy::new(&ground.at("outside/passwd"), None).is_err());
    symlink(ground.at("project"), ground.at("alias")).unwrap();
    let policy = PathPolicy::new(&ground.at("alias"), None).unwrap();
    for path in ["src/config.lisp", "../alias/src/config.lisp"] {
        let resolved = policy.judge(path).resolved().unwrap();
        assert_eq!(resolved.relative, Some("src/config.lisp".into()), "{path}");
        assert_eq!(resolved.path, ground.at("project/src/config.lisp"));
    }
    let by_alias = ground.at("alias/src").display().to_string();
    assert_eq!(word(&policy.judge(&by_alias)), "inside");
}

#[test]
fn what_is_not_there_yet_says_how_much_of_it() {
    let ground = Ground::new();
    let resolved = ground.inside("src/new/deeper/file.lisp");
    assert_eq!((resolved.kind, resolved.missing), (Kind::Missing, 3));
    assert_eq!(resolved.anchor, ground.inside("src").anchor);
    assert_eq!(ground.inside("").relative, Some(PathBuf::new()));
}

#[test]
fn concerns_name_the_reason() {
    let ground = Ground::new();
    assert_eq!(ground.judge("src").concern(), None);
    let outside = ground.judge("../outside/passwd").concern().unwrap();
    assert!(outside.contains("outside the project"), "{outside}");
    let private = ground.judge(".env").concern().unwrap();
    assert!(private.contains("'.env' may hold secrets"), "{private}");
}

#[test]
fn a_folder_swapped_for_a_link_after_judging_is_noticed() {
    let ground = Ground::new();
    let file = ground.inside("src/deep/a.lisp");
    let new = ground.inside("src/deep/new/b.lisp");
    fs::rename(
        ground.at("project/src/deep"),
        ground.at("project/src/moved"),
    )
    .unwrap();
    fs::write(ground.at("outside/folder/a.lisp"), "theirs").unwrap();
    symlink(ground.at("outside/folder"), ground.at("project/src/deep")).unwrap();
    let changed = Some(Trouble::Changed);
    assert_eq!(
        verified::open_for_read(&file).err().map(|it| it.trouble),
        changed
    );
    assert_eq!(
        verified::replace(&file, b"x", None)
            .err()
            .map(|it| it.trouble),
        changed
    );
    assert_eq!(verified::remove(&file).err().map(|it| it.trouble), changed);
    assert_eq!(
        verified::create(&new, b"x", Parents::Make)
            .err()
            .map(|it| it.trouble),
        changed
    );
    assert_eq!(
        fs::read(ground.at("outside/folder/a.lisp")).unwrap(),
        b"theirs"
    );
    assert!(!ground.at("outside/folder/new").exists());
}

#[test]
fn a_file_swapped_for_a_link_a_pipe_or_another_file_is_noticed() {
    let ground = Ground::new();
    let path = ground.at("project/src/config.lisp");
    let swap: [&dyn Fn(); 3] = [
        &|| symlink(ground.at("outside/passwd"), &path).unwrap(),
        &|| rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap(),
        &|| {
            fs::write(ground.at("project/other"), "other").unwrap();
            fs::rename(ground.at("project/other"), &path).unwrap();
        },
    ];
    for swap in swap {
        let file = ground.inside("src/config.lisp");
        fs::rename(&path, ground.at("project/src/kept")).unwrap();
        swap();
        for result in [
            verified::open_for_read(&file).map(drop),
            verified::replace(&file, b"x", None),
            verified::remove(&file),
        ] {
            assert_eq!(result.err().map(|it| it.trouble), Some(Trouble::Changed));
        }
        fs::rename(ground.at("project/src/kept"), &path).unwrap();
    }
    assert_eq!(fs::read(ground.at("outside/passwd")).unwrap(), b"outside");
}

#[test]
fn a_new_file_never_lands_on_one_that_came_in_between() {
    let ground = Ground::new();
    let new = ground.inside("src/new.lisp");
    fs::write(&new.path, "mine").unwrap();
    let error = verified::create(&new, b"theirs", Parents::Make).unwrap_err();
    assert_eq!(error.trouble, Trouble::Exists);
    assert_eq!(fs::read(&new.path).unwrap(), b"mine");
    assert_eq!(
        names_in(&ground.at("project/src")),
        ["config.lisp", "deep", "new.lisp"]
    );
}

#[test]
fn create_makes_folders_only_when_asked_and_leaves_none_behind() {
    let ground = Ground::new();
    let new = ground.inside("a/b/c.lisp");
    let error = verified::create(&new, b"x", Parents::MustExist).unwrap_err();
    assert_eq!(error.trouble, Trouble::Missing);
    verified::create(&new, b"text", Parents::Make).unwrap();
    assert_eq!(fs::read(&new.path).unwrap(), b"text");
    let blocked = ground.inside("d/e/f.lisp");
    fs::create_dir(ground.at("project/d")).unwrap();
    let error = verified::create(&blocked, b"x", Parents::Make).unwrap_err();
    assert_eq!(error.trouble, Trouble::Changed);
    assert!(names_in(&ground.at("project/d")).is_empty());
}

#[test]
fn replace_keeps_the_mode_follows_links_at_judging_and_checks_what_was_read() {
    let ground = Ground::new();
    let path = ground.at("project/src/config.lisp");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    ground.link("alias.lisp", "src/config.lisp");
    let file = ground.inside("alias.lisp");
    let seen = Fingerprint::of_bytes(b"(config)\n");
    verified::replace(&file, b"(new)\r\n", Some(&seen)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"(new)\r\n");
    assert_eq!(
        path.metadata().unwrap().permissions().mode() & 0o7777,
        0o750
    );
    assert!(
        ground
            .at("project/alias.lisp")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
    let again = ground.inside("alias.lisp");
    let error = verified::replace(&again, b"x", Some(&seen)).unwrap_err();
    assert!(
        error.message.contains("changed since it was last read"),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"(new)\r\n");
    assert_eq!(names_in(&ground.at("project/src")), ["config.lisp", "deep"]);
}

#[test]
fn rename_and_remove() {
    let ground = Ground::new();
    let source = ground.inside("src/config.lisp");
    let taken = ground.inside("src/deep/a.lisp");
    let move_to =
        |to: &Resolved, overwrite| verified::rename(&source, to, Parents::Make, overwrite);
    assert_eq!(
        move_to(&taken, Overwrite::Refuse).unwrap_err().trouble,
        Trouble::Exists
    );
    assert_eq!(fs::read(&taken.path).unwrap(), b"a");
    assert_eq!(
        move_to(&ground.inside("src/deep"), Overwrite::Replace)
            .unwrap_err()
            .trouble,
        Trouble::WrongKind
    );
    let new = ground.inside("x/y/moved.lisp");
    move_to(&new, Overwrite::Refuse).unwrap();
    assert_eq!(fs::read(&new.path).unwrap(), b"(config)\n");
    assert!(!source.path.exists());
    let moved = ground.inside("x/y/moved.lisp");
    verified::rename(&moved, &taken, Parents::MustExist, Overwrite::Replace).unwrap();
    assert_eq!(fs::read(&taken.path).unwrap(), b"(config)\n");
    let error = verified::remove(&ground.inside("src/deep")).unwrap_err();
    assert!(
        error.message.contains("only files can be deleted"),
        "{error}"
    );
    verified::remove(&ground.inside("src/deep/a.lisp")).unwrap();
    assert!(!taken.path.exists());
}

#[test]
fn a_missing_file_names_what_is_like_it() {
    let ground = Ground::new();
    let error = verified::open_for_read(&ground.inside("src/confg.lisp")).unwrap_err();
    assert_eq!(error.trouble, Trouble::Missing);
    assert_eq!(
        error.message,
        "File not found: 'src/confg.lisp' does not exist. Near names: src/config.lisp."
    );
    let error = verified::open_for_read(&ground.inside("src")).unwrap_err();
    assert_eq!(error.message, "'src' is a directory, not a file.");
}

/// Runs in a process of its own whose files can't grow: the same errors as a full disk brings.
#[test]
fn a_write_that_breaks_off_leaves_the_original() {
    const CHILD: &str = "AGENT_Q_TEST_NO_SPACE";
    let big = vec![b'x'; 1 << 20];
    if std::env::var_os(CHILD).is_some() {
        let ground = Ground::new();
        let file = ground.inside("src/config.lisp");
        let error = verified::replace(&file, &big, None).unwrap_err();
        assert_eq!(error.trouble, Trouble::System, "{error}");
        assert_eq!(fs::read(&file.path).unwrap(), b"(config)\n");
        let new = ground.inside("n/e/w.lisp");
        verified::create(&new, &big, Parents::Make).unwrap_err();
        assert!(!ground.at("project/n").exists());
        assert_eq!(names_in(&ground.at("project/src")), ["config.lisp", "deep"]);
        return;
    }
    let child = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -f 64; trap '' XFSZ; exec \"$0\" --exact \"$1\"",
        ])
        .arg(std::env::current_exe().unwrap())
        .arg("a_write_that_breaks_off_leaves_the_original")
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A step in making a tree: a folder, a file or a link at a place, under the base folder.
#[derive(Debug, Clone)]
enum Make {
    Folder(String),
    File(String),
    Link(String, String),
}

fn a_path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "project", "outside"]),
        1 => Just(".."),
        1 => Just("."),
    ];
    prop::collection::vec(name, 1..5).prop_map(|names| names.join("/"))
}

fn a_place() -> impl Strategy<Value = String> {
    (prop::sample::select(vec!["project", "outside"]), a_path())
        .prop_map(|(top, rest)| format!("{top}/{rest}"))
}

fn a_step() -> impl Strategy<Value = Make> {
    prop_oneof![
        a_place().prop_map(Make::Folder),
        a_place().prop_map(Make::File),
        (a_place(), a_path()).prop_map(|(at, to)| Make::Link(at, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// What the kernel reaches by a path is inside exactly when the policy says so, and what is
    /// made by it lands inside exactly when the policy says so.
    #[test]
    fn the_policy_agrees_with_the_kernel(
        steps in prop::collection::vec(a_step(), 0..25),
        paths in prop::collection::vec(a_path(), 1..8),
    ) {
        let base = TempDir::new().unwrap();
        let top = base.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("project")).unwrap();
        fs::create_dir_all(top.join("outside")).unwrap();
        for step in &steps {
            // What can't be made isn't; nothing may leave the base folder.
            let _ = match step {
                Make::Folder(at) if stays(at) => fs::create_dir_all(top.join(at)),
                Make::File(at) if stays(at) => fs::write(top.join(at), at),
                Make::Link(at, to) if stays(at) => symlink(to, top.join(at)),
                _ => Ok(()),
            };
        }
        let policy = PathPolicy::new(&top.join("project"), None).unwrap();
        let root = top.join("project").canonicalize().unwrap();
        for path in &paths {
            let verdict = policy.judge(path);
            if let Ok(real) = root.join(path).canonicalize() {
                let resolved = verdict.clone().resolved();
                prop_assert_eq!(resolved.map(|it| it.path).ok(), Some(real.clone()));
                prop_assert_eq!(matches!(verdict, Verdict::Inside(_)), real.starts_with(&root));
            }
            let Verdict::Inside(resolved) = verdict else { continue };
            if resolved.kind == Kind::Missing
                && verified::create(&resolved, b"made", Parents::Make).is_ok()
            {
                let real = resolved.path.canonicalize().unwrap();
                prop_assert!(real.starts_with(&root), "{:?}", real);
                prop_assert_eq!(fs::read(&real).unwrap(), b"made");
            } else if resolved.kind == Kind::File {
                let mut read = Vec::new();
                verified::open_for_read(&resolved).unwrap().read_to_end(&mut read).unwrap();
                prop_assert!(resolved.path.canonicalize().unwrap().starts_with(&root));
                prop_assert_eq!(read, fs::read(&resolved.path).unwrap());
            }
        }
    }
}

/// Whether PATH, taken literally, stays below where it starts.
fn stays(path: &str) -> bool {
    let mut depth = 0;
    path.split('/').all(|name| {
        depth += match name {
            "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth > 0
    })
}
