// SPDX-License-Identifier: GPL-3.0-or-later
//! A chat's file: who may read and write it, and what becomes of it where it can't be written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::{Arc, Mutex};

use agent_q_core::chats::ChatError;
use agent_q_core::chats::folder::{ChatFolder, ChatId};
use agent_q_core::chats::reader::{Outline, outline};
use agent_q_core::chats::record::Record;
use agent_q_core::chats::writer::{ChatWriter, Tell};

type Said = Arc<Mutex<Vec<String>>>;

pub fn listening() -> (Said, Tell) {
    let said = Said::default();
    let heard = Arc::clone(&said);
    (said, Box::new(move |text| heard.lock().unwrap().push(text)))
}

pub fn turn(turn: u64, text: &str) -> Record {
    Record::Turn {
        turn,
        text: text.to_owned(),
        along: Vec::new(),
    }
}

pub fn ended() -> Record {
    Record::Ended {
        outcome: "finished".to_owned(),
        message: None,
    }
}

fn id() -> ChatId {
    ChatId::parse("session-20261124-213000-0A3F").unwrap()
}

fn read(folder: &ChatFolder) -> Outline {
    let file = folder.open(&id()).unwrap();
    outline(&file, &folder.file(&id())).unwrap()
}

fn words(outline: &Outline) -> Vec<&str> {
    let words = outline.turns.iter().map(|turn| turn.words.as_str());
    words.collect()
}

#[test]
fn a_chat_is_its_owners_alone_and_leaves_nothing_before_its_first_event() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path().join("deep/chats"));
    let writer = ChatWriter::new(folder.clone(), id(), listening().1);
    assert!(!folder.path().exists());

    writer.push(turn(1, "hello"));
    writer.push(ended());
    writer.flush();
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.path().to_owned()), 0o700);
    assert_eq!(mode(folder.file(&id())), 0o600);
    assert_eq!(folder.ids().unwrap(), [id()]);
    assert_eq!(words(&read(&folder)), ["hello"]);
}

#[test]
fn a_chat_in_which_nothing_happened_leaves_no_file() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let writer = ChatWriter::new(folder.clone(), id(), listening().1);
    writer.flush();
    assert!(writer.is_blank());
    writer.close();
    assert_eq!(folder.ids().unwrap(), []);
    let writer = ChatWriter::new(folder.clone(), id(), listening().1);
    writer.push(turn(1, "one"));
    writer.flush();
    assert!(!writer.is_blank());
    writer.close();
    assert_eq!(words(&read(&folder)), ["one"]);
}

#[test]
fn a_chat_is_written_by_one_emacs_at_a_time() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let first = ChatWriter::new(folder.clone(), id(), listening().1);
    first.push(turn(1, "one"));
    first.flush();
    let second = ChatWriter::resume(folder.clone(), id(), listening().1);
    assert!(matches!(second, Err(ChatError::Busy(_))));
    // It can be read meanwhile.
    assert_eq!(words(&read(&folder)), ["one"]);
    first.close();
    let second = ChatWriter::resume(folder.clone(), id(), listening().1).unwrap();
    second.push(turn(2, "two"));
    second.flush();
    assert_eq!(words(&read(&folder)), ["one", "two"]);
}

#[test]
fn what_was_cut_off_stays_and_hides_nothing_that_follows() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let writer = ChatWriter::new(folder.clone(), id(), listening().1);
    writer.push(turn(1, "one"));
    writer.push(turn(2, "two"));
    writer.flush();
    writer.close();
    writer.push(turn(9, "after its end"));
    let path = folder.file(&id());
    let whole = fs::read(&path).unwrap();
    let cut = whole[..whole.len() - 5].to_vec();
    fs::write(&path, &cut).unwrap();

    let writer = ChatWriter::resume(folder.clone(), id(), listening().1).unwrap();
    writer.push(turn(3, "three"));
    writer.flush();
    assert!(fs::read(&path).unwrap().starts_with(&cut));
    assert_eq!(words(&read(&folder)), ["one", "three"]);
}

#[test]
fn a_symbolic_link_is_no_chat() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let secret = home.path().join("secret");
    fs::write(&secret, "{\"kind\":\"chat\"}\n").unwrap();
    symlink(&secret, folder.file(&id())).unwrap();
    assert!(matches!(folder.open(&id()), Err(ChatError::NoFile(_))));
    let writer = ChatWriter::resume(folder, id(), listening().1);
    assert!(matches!(writer, Err(ChatError::NoFile(_))));
}

#[test]
fn where_nothing_can_be_written_the_chat_goes_on_and_is_written_later() {
    let home = tempfile::tempdir().unwrap();
    // A file in the folder's place; a folder without permission is none to a test that root runs.
    let place = home.path().join("chats");
    fs::write(&place, "").unwrap();
    let folder = ChatFolder::new(&place);
    let (said, tell) = listening();
    let writer = ChatWriter::new(folder.clone(), id(), tell);
    for number in 1..4 {
        writer.push(turn(number, &number.to_string()));
        writer.push(ended());
        writer.flush();
    }
    let sentences = said.lock().unwrap().clone();
    assert_eq!(sentences.len(), 1, "{sentences:?}");
    assert!(sentences[0].contains("can't be saved at the moment"));
    assert!(sentences[0].contains("chats"));
    assert!(writer.trouble().is_some());

    fs::remove_file(&place).unwrap();
    writer.flush();
    assert_eq!(words(&read(&folder)), ["1", "2", "3"]);
    assert_eq!(writer.trouble(), None);
    let sentences = said.lock().unwrap().clone();
    assert_eq!(sentences.len(), 2);
    assert!(sentences[1].contains("saved again"));
}

#[test]
fn events_of_many_threads_are_all_written() {
    let home = tempfile::tempdir().unwrap();
    let folder = ChatFolder::new(home.path());
    let writer = ChatWriter::new(folder.clone(), id(), listening().1);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let writer = &writer;
            scope.spawn(move || {
                for number in 0..50 {
                    writer.push(turn(thread * 1000 + number, "x"));
                }
            });
        }
    });
    writer.flush();
    let read = read(&folder);
    let mut numbers: Vec<u64> = read.turns.iter().map(|turn| turn.turn).collect();
    assert_eq!(numbers.len(), 200);
    let of_first: Vec<u64> = numbers.iter().copied().filter(|it| *it < 1000).collect();
    assert!(of_first.is_sorted(), "each thread's are in its order");
    numbers.dedup();
    assert_eq!(numbers.len(), 200);
}
