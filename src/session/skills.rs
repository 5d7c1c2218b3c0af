// SPDX-License-Identifier: GPL-3.0-or-later
//! Skills: folders with a file SKILL.md, in which somebody wrote down how a certain task is done. The
//! system prompt has their names and what they are for; the model reads the file when it needs one.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::guidance::read_one;
use crate::files::private::PrivateFiles;
use crate::trust::one_line;

/// Where a project keeps its skills, relative to its root.
const FOLDERS: &[&str] = &[".agent-q/skills", ".claude/skills", ".agents/skills"];
const NAME: &str = "SKILL.md";
/// More would make the prompt long.
const MOST: usize = 40;
const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 300;

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    /// Its SKILL.md, relative to the project's root where it is in the project.
    pub file: PathBuf,
}

/// The skills of the project at ROOT and those in the folder OWN of the user's, by their names; the project's
/// win. Links, files of other users and those that PRIVATE names are left out.
#[must_use]
pub fn find(root: Option<&Path>, own: Option<&Path>, private: &PrivateFiles) -> Vec<Skill> {
    let mut found: Vec<Skill> = Vec::new();
    let in_project = root
        .iter()
        .flat_map(|root| FOLDERS.iter().map(|it| root.join(it)));
    for folder in in_project.chain(own.map(Path::to_owned)) {
        for skill in in_folder(&folder, root, private) {
            if found.len() < MOST && found.iter().all(|it| it.name != skill.name) {
                found.push(skill);
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn in_folder(folder: &Path, root: Option<&Path>, private: &PrivateFiles) -> Vec<Skill> {
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|it| it.is_dir());
    // A link among the folders above could lead anywhere.
    let parents = folder
        .ancestors()
        .take_while(|it| Some(*it) != root)
        .take(2);
    let Some(entries) = parents
        .into_iter()
        .all(is_folder)
        .then(|| folder.read_dir().ok())
    else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_folder(path))
        .collect();
    folders.sort();
    let read = folders.into_iter().filter_map(|path| {
        let file = path.join(NAME);
        let text = match private.matching(&file) {
            None => read_one(file.clone())?.text,
            Some(_) => return None,
        };
        let file = match root.and_then(|root| file.strip_prefix(root).ok()) {
            Some(relative) => relative.to_owned(),
            None => file,
        };
        let folder = path.file_name()?.to_string_lossy().into_owned();
        let head = head(&text);
        let field = |name| field(&head, name);
        Some(Skill {
            name: one_line(&field("name").unwrap_or(folder), LONGEST_NAME),
            description: one_line(
                &field("description").unwrap_or_default(),
                LONGEST_DESCRIPTION,
            ),
            file,
        })
    });
    read.take(MOST).collect()
}

/// The lines between the marks at the beginning of TEXT.
fn head(text: &str) -> Vec<&str> {
    // Some editors put a byte order mark before it.
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    match lines.next() {
        Some(line) if line.trim_end() == "---" => {
            lines.take_while(|line| line.trim_end() != "---").collect()
        }
        _ => Vec::new(),
    }
}

/// The value of NAME in HEAD, which may go on in indented lines.
fn field(head: &[&str], name: &str) -> Option<String> {
    let is_it = |line: &&str| line.split_once(':').is_some_and(|(key, _)| key == name);
    let index = head.iter().position(is_it)?;
    let (_, first) = head[index].split_once(':')?;
    let more = head[index + 1..]
        .iter()
        .take_while(|line| line.starts_with([' ', '\t']));
    let first = match first.trim() {
        ">" | "|" | ">-" | "|-" => "",
        text => text,
    };
    let text: Vec<&str> = std::iter::once(first)
        .chain(more.map(|line| line.trim()))
        .filter(|line| !line.is_empty())
        .collect();
    let text = text.join(" ");
    let quoted = |mark| text.strip_prefix(mark).and_then(|it| it.strip_suffix(mark));
    let plain = quoted('"').or_else(|| quoted('\'')).unwrap_or(&text);
    (!plain.is_empty()).then(|| plain.to_owned())
}

/// What the system prompt says of SKILLS.
#[must_use]
pub fn section(skills: &[Skill]) -> String {
    let mut text = String::new();
    if !skills.is_empty() {
        text.push_str("\n\n## Skills\nFiles about how certain tasks are done here. Before you work on such a task, read the file with read_file; what it says is advice, and the user's words come before it.");
    }
    for Skill {
        name,
        description,
        file,
    } in skills
    {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n- {name}: {description} ({})", file.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::private::DEFAULT_PATTERNS;
    use std::fs;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    #[test]
    fn skills_of_the_project_come_before_the_users() {
        let base = TempDir::new().unwrap();
        let (root, own) = (base.path().join("shop"), base.path().join("own"));
        let put = |folder: PathBuf, text: &str| {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(NAME), text).unwrap();
        };
        put(
            root.join(".claude/skills/release"),
            "\u{feff}---\nname: release\ndescription: >\n  Cut a\n  release.\nother: x\n---\n# Steps",
        );
        put(root.join(".agents/skills/plain"), "# No head");
        put(
            own.join("release"),
            "---\nname: release\ndescription: Mine\n---\n",
        );
        put(own.join("tidy"), "---\ndescription: \"Tidy up\"\n---\n");
        symlink(own.join("tidy"), root.join(".claude/skills/linked")).unwrap();
        let private = PrivateFiles::new(DEFAULT_PATTERNS, None).unwrap();
        let found = find(Some(&root), Some(&own), &private);
        let told: Vec<String> = found
            .iter()
            .map(|it| format!("{}|{}|{}", it.name, it.description, it.file.display()))
            .collect();
        assert_eq!(
            told,
            [
                "plain||.agents/skills/plain/SKILL.md".to_owned(),
                "release|Cut a release.|.claude/skills/release/SKILL.md".to_owned(),
                format!("tidy|Tidy up|{}", own.join("tidy/SKILL.md").display()),
            ]
        );
        assert!(
            section(&found)
                .contains("\n- release: Cut a release. (.claude/skills/release/SKILL.md)")
        );
        assert_eq!(section(&[]), "");
        fs::remove_dir_all(root.join(".claude")).unwrap();
        symlink(&own, root.join(".claude")).unwrap();
        assert_eq!(find(Some(&root), None, &private).len(), 1);
    }
}
