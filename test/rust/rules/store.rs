// SPDX-License-Identifier: GPL-3.0-or-later
//! The file of consent rules: what is written, what is read back, and that a file that can't be
//! understood is left alone and makes every call ask.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agent_q_core::rules::{
    Alarms, Effect, Floor, Outcome, Rule, RuleBook, RuledCall, Scope, StoreError,
};
use agent_q_core::trust::{Provenance, SafetyLevel};
use serde_json::{Map, Value};
use tempfile::TempDir;

fn place() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("agent-q/rules.json");
    (folder, file)
}

fn decide(
    book: &RuleBook,
    tool: &str,
    level: SafetyLevel,
    project: Option<&Path>,
) -> (Outcome, String) {
    let arguments = Map::<String, Value>::new();
    let explanation = book.explain(&RuledCall {
        call: 1,
        turn: 1,
        chat: 1,
        tool,
        level,
        arguments: &arguments,
        alarms: &Alarms::default(),
        paths: &[],
        package: None,
        connection: None,
        mcp_client: None,
        project,
        provenance: Provenance::Own,
    });
    (explanation.outcome, explanation.reason)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn lasting_rules_are_written_readably_for_the_user_only() {
    let (folder, file) = place();
    let mut book = RuleBook::open(&file);
    let mut rule = Rule::new(Effect::Allow, "edit_file", Scope::Project("/p".into()));
    rule.path = Some("src/**".into());
    rule.dangerous = Floor::Waived;
    assert_eq!(book.add(rule).unwrap(), 1);
    book.add(Rule::new(Effect::Deny, "delete_file", Scope::Always))
        .unwrap();
    book.add(Rule::new(Effect::Ask, "eval_form", Scope::Chat(4)))
        .unwrap();
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let expected = r#"{
  "version": 1,
  "rules": [
    {
      "id": 1,
      "effect": "allow",
      "tool": "edit_file",
      "path": "src/**",
      "scope": {
        "for": "project",
        "which": "/p"
      },
      "dangerous": true
    },
    {
      "id": 2,
      "effect": "deny",
      "tool": "delete_file",
      "scope": {
        "for": "always"
      }
    }
  ]
}
"#;
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    let again = RuleBook::open(&file);
    let lasting: Vec<&Rule> = book.rules().filter(|rule| rule.scope.lasts()).collect();
    assert_eq!(again.rules().collect::<Vec<_>>(), lasting);
    assert_eq!(
        fs::read_dir(folder.path().join("agent-q")).unwrap().count(),
        1
    );
}

#[test]
fn rules_are_revoked() {
    let (_folder, file) = place();
    let mut book = RuleBook::open(&file);
    let first = book
        .add(Rule::new(Effect::Deny, "a", Scope::Always))
        .unwrap();
    let second = book
        .add(Rule::new(Effect::Deny, "b", Scope::Always))
        .unwrap();
    let passing = book
        .add(Rule::new(Effect::Deny, "c", Scope::Turn(1)))
        .unwrap();
    assert_eq!(book.revoke(first), Ok(true));
    assert_eq!(book.revoke(passing), Ok(true));
    assert_eq!(book.revoke(99), Ok(false));
    let left: Vec<u64> = RuleBook::open(&file).rules().map(|rule| rule.id).collect();
    assert_eq!(left, [second]);
}

#[test]
fn the_generation_grows_with_every_change_and_with_nothing_else() {
    let (_folder, file) = place();
    let mut book = RuleBook::open(&file);
    let mut last = book.generation();
    let mut changed = |book: &RuleBook| {
        let before = std::mem::replace(&mut last, book.generation());
        before < last
    };
    let deny = |scope| Rule::new(Effect::Deny, "a", scope);
    let lasting = book.add(deny(Scope::Always)).unwrap();
    assert!(changed(&book));
    book.add(deny(Scope::Turn(1))).unwrap();
    assert!(changed(&book));
    book.reload();
    book.forget(&Scope::Turn(2));
    book.add(Rule::new(Effect::Deny, "", Scope::Always))
        .unwrap_err();
    let unchanged = !changed(&book);
    book.forget(&Scope::Turn(1));
    assert!(changed(&book));
    assert_eq!(book.revoke(lasting), Ok(true));
    assert!(changed(&book));
    RuleBook::open(&file).add(deny(Scope::Always)).unwrap();
    book.reload();
    assert!(changed(&book), "another Emacs added one");
    assert!(unchanged);
}

#[test]
fn two_books_on_one_file_lose_nothing() {
    let (_folder, file) = place();
    let (mut one, mut two) = (RuleBook::open(&file), RuleBook::open(&file));
    one.add(Rule::new(Effect::Deny, "a", Scope::Always))
        .unwrap();
    two.add(Rule::new(Effect::Deny, "b", Scope::Always))
        .unwrap();
    one.reload();
    let tools = |book: &RuleBook| {
        book.rules()
            .map(|it| (it.id, it.tool.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(tools(&one), [(1, "a".into()), (2, "b".into())]);
    assert_eq!(tools(&one), tools(&two));
}

#[test]
fn many_at_once_lose_nothing() {
    let (_folder, file) = place();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let file = &file;
            scope.spawn(move || {
                let mut book = RuleBook::open(file);
                for n in 0..5 {
                    let tool = format!("tool_{thread}_{n}");
                    book.add(Rule::new(Effect::Deny, &tool, Scope::Always))
                        .unwrap();
                }
            });
        }
    });
    let book = RuleBook::open(&file);
    let mut ids: Vec<u64> = book.rules().map(|rule| rule.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=20).collect::<Vec<_>>());
}

#[test]
fn rules_written_by_hand_get_numbers() {
    let (_folder, file) = place();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = r#"{"version": 1, "rules": [
        {"effect": "ask", "tool": "*", "scope": {"for": "always"}},
        {"id": 7, "effect": "ask", "tool": "a", "scope": {"for": "always"}},
        {"id": 7, "effect": "ask", "tool": "b", "scope": {"for": "always"}}]}"#;
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let ids: Vec<u64> = RuleBook::open(&file).rules().map(|rule| rule.id).collect();
    assert_eq!(ids, [8, 7, 9]);
}

#[test]
fn a_file_that_is_not_understood_is_kept_and_every_call_asks() {
    let good = r#"{"effect": "allow", "tool": "a", "scope": {"for": "always"}}"#;
    let wrap = |rule: &str| format!(r#"{{"version": 1, "rules": [{rule}]}}"#);
    let cases = [
        String::new(),
        "not JSON".into(),
        r#"{"version": 2, "rules": []}"#.into(),
        r#"{"rules": []}"#.into(),
        r#"{"version": 1, "rules": [], "more": 1}"#.into(),
        wrap(&good.replace("\"tool\"", "\"tools\"")),
        wrap(&good.replace("allow", "permit")),
        wrap(&good.replace("\"a\"", "\"[a\"")),
        wrap(&good.replace("}}", "}, \"dangerous\": true}")),
        wrap(&good.replace("\"always\"", "\"chat\", \"which\": 1")),
        wrap(&good.replace("}}", "}, \"paths\": \"src/**\"}")),
    ];
    for text in cases {
        let (_folder, file) = place();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let mut book = RuleBook::open(&file);
        assert!(
            matches!(book.trouble(), Some(StoreError::Unusable { .. })),
            "{text}"
        );
        let (outcome, reason) = decide(&book, "read_file", SafetyLevel::Safe, None);
        assert_eq!(outcome, Outcome::Ask, "{text}");
        assert!(
            reason.contains("every call asks") && reason.contains("rules.json"),
            "{reason}"
        );
        book.add(Rule::new(Effect::Allow, "read_file", Scope::Always))
            .unwrap_err();
        book.revoke(1).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        // Mended, it holds again.
        fs::write(&file, wrap(good)).unwrap();
        book.reload();
        assert_eq!(book.trouble(), None);
        assert_eq!(
            decide(&book, "read_file", SafetyLevel::Safe, None).0,
            Outcome::Run
        );
    }
}

#[test]
fn a_file_that_others_can_write_is_not_trusted() {
    let (_folder, file) = place();
    let mut book = RuleBook::open(&file);
    book.add(Rule::new(Effect::Deny, "a", Scope::Always))
        .unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let book = RuleBook::open(&file);
    assert!(
        book.trouble()
            .unwrap()
            .to_string()
            .contains("other users can write to it")
    );
    assert_eq!(decide(&book, "b", SafetyLevel::Safe, None).0, Outcome::Ask);
}

#[test]
fn a_linked_file_stays_a_link() {
    let (folder, file) = place();
    let real = folder.path().join("dotfiles.json");
    RuleBook::open(&real)
        .add(Rule::new(Effect::Deny, "a", Scope::Always))
        .unwrap();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    symlink(&real, &file).unwrap();
    let mut book = RuleBook::open(&file);
    book.add(Rule::new(Effect::Deny, "b", Scope::Always))
        .unwrap();
    assert!(file.symlink_metadata().unwrap().is_symlink());
    assert_eq!(RuleBook::open(&real).rules().count(), 2);
}

#[test]
fn project_rules_hold_in_their_project_only_and_nothing_is_read_from_it() {
    let (folder, file) = place();
    let project = folder.path().join("project");
    fs::create_dir_all(project.join(".agent-q")).unwrap();
    // What a project ships to grant itself something.
    let grant = r#"{"version": 1, "rules": [{"effect": "allow", "tool": "*", "scope": {"for": "always"}}]}"#;
    for name in [".agent-q/rules.json", "rules.json", ".agent-q.json"] {
        fs::write(project.join(name), grant).unwrap();
    }
    let real = project.canonicalize().unwrap();
    let alias = folder.path().join("alias");
    symlink(&project, &alias).unwrap();
    let mut book = RuleBook::open(&file);
    // Even when the root was written down with a link in it.
    book.add(Rule::new(Effect::Ask, "read_file", Scope::Project(alias)))
        .unwrap();
    assert_eq!(book.rules().count(), 1);
    let read = |project| decide(&book, "read_file", SafetyLevel::Safe, project).0;
    assert_eq!(read(Some(real.as_path())), Outcome::Ask);
    assert_eq!(read(Some(Path::new("/elsewhere"))), Outcome::Run);
    assert_eq!(read(None), Outcome::Run);
}

#[test]
fn a_rule_that_can_not_be_written_is_not_taken() {
    let (folder, _) = place();
    let file = folder.path().join("taken/rules.json");
    fs::write(folder.path().join("taken"), "a file").unwrap();
    let mut book = RuleBook::open(&file);
    let error = book
        .add(Rule::new(Effect::Deny, "a", Scope::Always))
        .unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Unwritable { .. } | StoreError::Unusable { .. }
        ),
        "{error}"
    );
    assert_eq!(book.rules().count(), 0);
}
