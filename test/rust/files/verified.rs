// SPDX-License-Identifier: GPL-3.0-or-later
//! Using paths that were judged: what was swapped in between is noticed, writes are whole or not
//! at all, and nothing is ever overwritten unasked.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_q_core::files::Trouble;
use agent_q_core::files::fingerprint::Fingerprint;
use agent_q_core::files::path::{PathVerdict, Resolved};
use agent_q_core::files::verified::{self, Overwrite, Parents};

use crate::ground::Ground;

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
    assert_eq!(
        verified::remove(&file, None).err().map(|it| it.trouble),
        changed
    );
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

/// A folder and a link to another place take turns under one name while files are read and
/// replaced there: whatever is judged inside, nothing outside is read or changed.
#[test]
#[cfg(target_os = "linux")]
fn who_swaps_folders_all_the_time_never_wins() {
    let ground = Ground::new();
    fs::write(ground.at("outside/folder/a.lisp"), "theirs").unwrap();
    symlink(ground.at("outside/folder"), ground.at("project/src/link")).unwrap();
    let swapping = AtomicBool::new(true);
    let (mut done, mut noticed) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (deep, link) = (ground.at("project/src/deep"), ground.at("project/src/link"));
            while swapping.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let here = rustix::fs::CWD;
                rustix::fs::renameat_with(here, &deep, here, &link, flags).unwrap();
            }
        });
        // Until both have happened often enough, whatever the threads' luck.
        for _ in 0..200_000 {
            if done >= 200 && noticed >= 20 {
                break;
            }
            let PathVerdict::Inside(file) = ground.judge("src/deep/a.lisp") else {
                continue;
            };
            match verified::open_for_read(&file) {
                Ok(mut opened) => {
                    let mut text = String::new();
                    opened.read_to_string(&mut text).unwrap();
                    assert_eq!(text, "a");
                    done += 1;
                }
                Err(error) => {
                    assert_eq!(error.trouble, Trouble::Changed, "{error}");
                    noticed += 1;
                }
            }
            if let PathVerdict::Inside(new) = ground.judge("src/deep/new") {
                let _ = verified::create(&new, b"", Parents::Make);
            }
        }
        swapping.store(false, Ordering::Relaxed);
    });
    assert!(done > 0);
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
            verified::remove(&file, None),
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
        |to: &Resolved, overwrite| verified::rename(&source, to, Parents::Make, overwrite, None);
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
    verified::rename(&moved, &taken, Parents::MustExist, Overwrite::Replace, None).unwrap();
    assert_eq!(fs::read(&taken.path).unwrap(), b"(config)\n");
    let error = verified::remove(&ground.inside("src/deep"), None).unwrap_err();
    assert!(
        error.message.contains("only files can be deleted"),
        "{error}"
    );
    verified::remove(&ground.inside("src/deep/a.lisp"), None).unwrap();
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
        .arg("verified::a_write_that_breaks_off_leaves_the_original")
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
