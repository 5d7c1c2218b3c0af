// SPDX-License-Identifier: GPL-3.0-or-later
//! Which paths a project's tools may touch: a table of escapes, and a property over generated
//! trees with symbolic links, in which the kernel says where a path leads.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agent_q_core::files::path::{PathKind, PathPolicy, PathVerdict};
use agent_q_core::files::verified::{self, Parents};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::ground::Ground;

fn word(verdict: &PathVerdict) -> &'static str {
    match verdict {
        PathVerdict::Inside(_) => "inside",
        PathVerdict::Outside(_) => "outside",
        PathVerdict::Private { .. } => "private",
        PathVerdict::Refused(_) => "refused",
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
        if let PathVerdict::Refused(error) = verdict {
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
    assert_eq!((resolved.kind, resolved.missing), (PathKind::Missing, 3));
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
                prop_assert_eq!(matches!(verdict, PathVerdict::Inside(_)), real.starts_with(&root));
            }
            let PathVerdict::Inside(resolved) = verdict else { continue };
            if resolved.kind == PathKind::Missing
                && verified::create(&resolved, b"made", Parents::Make).is_ok()
            {
                let real = resolved.path.canonicalize().unwrap();
                prop_assert!(real.starts_with(&root), "{:?}", real);
                prop_assert_eq!(fs::read(&real).unwrap(), b"made");
            } else if resolved.kind == PathKind::File {
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
