// SPDX-License-Identifier: GPL-3.0-or-later
//! What the people of a project wrote for agents that work on it: the files AGENTS.md of its root and of
//! the directories around it. Each is read as a part of the system prompt.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::process::geteuid;

const NAME: &str = "AGENTS.md";

/// How much of one file is read, in bytes.
const LONGEST: usize = 32 * 1024;

/// One of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guide {
    pub path: PathBuf,
    /// Its text, or the beginning of it.
    pub text: String,
}

/// The files for a project at ROOT, the nearest one last. The directories around it are walked as far as
/// HOME, or the root of all. Links, which could lead to anything, and files of other users aren't read.
#[must_use]
pub fn read(root: &Path, home: Option<&Path>) -> Vec<Guide> {
    let mut guides: Vec<Guide> = root
        .ancestors()
        .take_while(|folder| Some(*folder) != home && folder.parent().is_some())
        .filter_map(|folder| read_one(folder.join(NAME)))
        .collect();
    guides.reverse();
    guides
}

/// The file at PATH, unless it is a link, another user's or empty.
pub(super) fn read_one(path: PathBuf) -> Option<Guide> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(&path, flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_plain || stat.st_uid != geteuid().as_raw() {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file)
        .take(LONGEST as u64 + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    let is_cut = bytes.len() > LONGEST;
    bytes.truncate(LONGEST);
    let mut text = String::from_utf8_lossy(&bytes).trim().to_owned();
    if is_cut {
        text.push_str("\n[The rest of this file is left out.]");
    }
    (!text.is_empty()).then_some(Guide { path, text })
}

/// What the system prompt says after our own text: INSTRUCTIONS of the user, GUIDES of the project, and
/// which skills there are, as SKILLS says.
#[must_use]
pub fn sections(instructions: Option<&str>, guides: &[Guide], skills: &str) -> Option<String> {
    let mut sections = String::new();
    // Writing to a String cannot fail.
    if !guides.is_empty() {
        sections.push_str("\n\n## The project's instructions");
    }
    for Guide { path, text } in guides {
        let _ = write!(sections, "\n\n{}:\n{text}", path.display());
    }
    sections.push_str(skills);
    if let Some(text) = instructions.map(str::trim).filter(|text| !text.is_empty()) {
        let _ = write!(sections, "\n\n## The user's instructions\n{text}");
    }
    (!sections.is_empty()).then_some(sections)
}

/// What the user is told of GUIDES that are read.
#[must_use]
pub fn notice(guides: &[Guide]) -> Option<String> {
    let names: Vec<String> = guides
        .iter()
        .map(|guide| format!("{} ({} bytes)", guide.path.display(), guide.text.len()))
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "The model reads {}; agent-q-project-read-instructions set to nil leaves that out.",
            names.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    #[test]
    fn the_directories_around_are_walked_and_links_are_not_followed() {
        let base = TempDir::new().unwrap();
        let home = base.path().join("home");
        let root = home.join("work/shop/");
        fs::create_dir_all(root.join("inner")).unwrap();
        fs::write(home.join(NAME), "home").unwrap();
        fs::write(home.join("work").join(NAME), " work \n").unwrap();
        fs::write(root.join(NAME), [b'a'; LONGEST + 5]).unwrap();
        let found = read(&root, Some(&home));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].text, "work");
        assert!(
            found[1]
                .text
                .ends_with("aa\n[The rest of this file is left out.]")
        );
        assert_eq!(read(&root.join("inner"), Some(&home)), found);

        fs::remove_file(root.join(NAME)).unwrap();
        fs::write(home.join("secret"), "secret").unwrap();
        symlink(home.join("secret"), root.join(NAME)).unwrap();
        assert_eq!(read(&root, Some(&home)), found[..1]);
        fs::remove_file(root.join(NAME)).unwrap();
        fs::create_dir(root.join(NAME)).unwrap();
        assert_eq!(read(&root, Some(&home)), found[..1]);
    }

    #[test]
    fn the_users_words_come_last() {
        let guide = Guide {
            path: "/a/AGENTS.md".into(),
            text: "Use spaces.".into(),
        };
        assert_eq!(
            sections(Some(" Use tabs. "), &[guide], "").unwrap(),
            "\n\n## The project's instructions\n\n/a/AGENTS.md:\nUse spaces.\n\n## The user's instructions\nUse tabs."
        );
        assert_eq!(sections(Some(" "), &[], ""), None);
    }
}
