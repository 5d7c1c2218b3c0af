// SPDX-License-Identifier: GPL-3.0-or-later
//! Reading text files by pages: lines, encodings, line ends, what is refused, and large files.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use agent_q_core::files::encoding::{Encoding, LineEnds, Mark, decode, encode};
use agent_q_core::files::fingerprint::Fingerprint;
use agent_q_core::files::path::{PathPolicy, Resolved};
use agent_q_core::files::read::{LONGEST_LINE, Page, Window, read_page, read_text};
use agent_q_core::files::{FileError, Trouble, human_size};
use proptest::prelude::*;
use tempfile::TempDir;

fn file_with(bytes: &[u8]) -> (TempDir, Resolved) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("f"), bytes).unwrap();
    let target = resolve(folder.path());
    (folder, target)
}

fn resolve(folder: &Path) -> Resolved {
    let policy = PathPolicy::new(folder, None).unwrap();
    policy.judge("f").resolved().unwrap()
}

fn page(bytes: &[u8], offset: Option<i64>, limit: Option<i64>) -> Result<Page, FileError> {
    let (_folder, target) = file_with(bytes);
    read_page(&target, Window::new(offset, limit)?)
}

fn texts(page: &Page) -> Vec<&str> {
    page.lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn a_window_of_lines() {
    let all = page(b"a\nb\nc\n", None, None).unwrap();
    assert_eq!(
        (texts(&all), all.total, all.next),
        (vec!["a", "b", "c"], Some(3), None)
    );
    assert_eq!(all.note(), "Lines 1–3 of 3 of 'f' (6 B).");
    let middle = page(b"a\nb\nc\n", Some(2), Some(1)).unwrap();
    assert_eq!(
        (texts(&middle), middle.total, middle.next),
        (vec!["b"], Some(3), Some(3))
    );
    assert_eq!(
        middle.note(),
        "Lines 2–2 of 3 of 'f' (6 B); more with offset=3."
    );
    let open = page(b"a\nb", Some(2), None).unwrap();
    assert_eq!(
        (texts(&open), open.total, open.next),
        (vec!["b"], Some(2), None)
    );
    let blank = page(b"\n\n", None, None).unwrap();
    assert_eq!((texts(&blank), blank.total), (vec!["", ""], Some(2)));
    let empty = page(b"", None, None).unwrap();
    assert_eq!(
        (texts(&empty), empty.total, empty.note()),
        (vec![], Some(0), "'f' is empty.".into())
    );
}

#[test]
fn bad_windows_say_what_would_be_good() {
    let error = page(b"a\nb\n", Some(3), None).unwrap_err();
    assert_eq!(error.message, "'f' has 2 lines; line 3 does not exist.");
    assert!(
        page(b"a", Some(0), None)
            .unwrap_err()
            .message
            .contains("has to be 1 or more")
    );
    assert!(page(b"a", Some(-4), None).is_err());
    assert!(page(b"a", None, Some(0)).is_err());
}

#[test]
fn encodings_and_line_ends_are_told() {
    let marked = page("\u{feff}(λ)\n".as_bytes(), None, None).unwrap();
    assert_eq!(
        (texts(&marked), marked.encoding),
        (vec!["(λ)"], Encoding::Utf8(Mark::Present))
    );
    let little = encode("\u{e9}t\u{e9}\nz\n", Encoding::Utf16Little(Mark::Present)).unwrap();
    assert_eq!(texts(&page(&little, None, None).unwrap()), ["été", "z"]);
    let unmarked = encode("plain words\n", Encoding::Utf16Big(Mark::None)).unwrap();
    assert_eq!(
        texts(&page(&unmarked, None, None).unwrap()),
        ["plain words"]
    );
    let latin = page(b"caf\xe9\n", None, None).unwrap();
    assert_eq!(
        (texts(&latin), latin.encoding),
        (vec!["café"], Encoding::Latin1)
    );
    assert!(latin.note().contains("Latin-1"));
    let windows = page(b"a\r\nb\r\n", None, None).unwrap();
    assert_eq!(
        (texts(&windows), windows.line_ends),
        (vec!["a", "b"], LineEnds::CrLf)
    );
    assert_eq!(
        page(b"a\r\nb\n", None, None).unwrap().line_ends,
        LineEnds::Mixed
    );
}

#[test]
fn a_character_over_the_edge_of_the_sample_is_no_other_encoding() {
    let mut text = "x".repeat(64 * 1024 - 1);
    text.push_str("λ\nend\n");
    let page = page(text.as_bytes(), Some(2), None).unwrap();
    assert_eq!(
        (texts(&page), page.encoding),
        (vec!["end"], Encoding::Utf8(Mark::None))
    );
}

#[test]
fn a_stray_nul_makes_no_binary_file_of_a_text() {
    let text = format!("{}one\0two λ\n", "(a line of a test file)\n".repeat(5));
    let page = page(text.as_bytes(), None, None).unwrap();
    assert_eq!(page.encoding, Encoding::Utf8(Mark::None));
    assert!(page.text().ends_with("\none␀two λ\n"));
    assert!(page.note().contains("; ␀ stands for NUL characters"));
}

#[test]
fn what_is_no_text_is_refused() {
    for bytes in [
        // Latin-1 is a guess, and a NUL speaks against it.
        &[b"(a line of Latin-1, \xe9)".repeat(9).as_slice(), b"\0"].concat(),
        &b"\x7fELF\0\0\x01"[..],
        b"PK\x03\x04\0\0",
        &[0xff, 0x01, 0x02, 0x81, 0x03],
    ] {
        let error = page(bytes, None, None).unwrap_err();
        assert_eq!(error.trouble, Trouble::WrongKind);
        assert!(error.message.contains("is a binary file"), "{error}");
    }
}

#[test]
fn long_lines_are_cut_between_characters() {
    let text = format!("{}\nshort\n", "é".repeat(LONGEST_LINE));
    let page = page(text.as_bytes(), None, None).unwrap();
    assert_eq!(page.lines[0].text, "é".repeat(LONGEST_LINE / 2));
    assert_eq!(page.lines[0].cut, LONGEST_LINE as u64);
    assert_eq!(page.lines[1].text, "short");
    assert!(page.text().contains("[… 2000 bytes of this line left out]"));
    let exact = "x".repeat(LONGEST_LINE);
    let page = self::page(format!("{exact}\r\n").as_bytes(), None, None).unwrap();
    assert_eq!((texts(&page), page.lines[0].cut), (vec![exact.as_str()], 0));
}

#[test]
fn a_page_ends_before_it_is_too_large_for_one_result() {
    let text = format!("{}\n", "y".repeat(99)).repeat(1000);
    let page = page(text.as_bytes(), None, Some(1000)).unwrap();
    assert!(page.text().len() < 16 * 1024);
    assert_eq!(page.next, Some(page.lines.len() as u64 + 1));
    assert_eq!(page.total, Some(1000));
}

#[test]
fn unreadable_and_missing_files_have_one_sentence() {
    let (folder, target) = file_with(b"x");
    let path = folder.path().join("f");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser reads everything.
    if fs::File::open(&path).is_err() {
        let error = read_text(&target).unwrap_err();
        assert_eq!(error.message, "'f' can't be used: no permission.");
    }
    fs::remove_file(&path).unwrap();
    let error = read_text(&resolve(folder.path())).unwrap_err();
    assert_eq!(error.message, "File not found: 'f' does not exist.");
}

#[test]
fn pages_of_a_sparse_file_of_2_gb() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    let mut file = fs::File::create(&path).unwrap();
    let start = "0123456789\n".repeat(10_000);
    file.write_all(start.as_bytes()).unwrap();
    file.set_len(2 << 30).unwrap();
    let target = resolve(folder.path());
    let page = read_page(&target, Window::new(Some(9_001), Some(3)).unwrap()).unwrap();
    assert_eq!(
        (texts(&page), page.total, page.next),
        (vec!["0123456789"; 3], None, Some(9_004))
    );
    let error = read_text(&target).unwrap_err();
    assert_eq!(
        error.message,
        "'f' has 2.0 GB; only files up to 32.0 MB can be used as a whole."
    );
}

#[test]
fn a_fingerprint_tells_a_change_from_a_touch() {
    let (folder, target) = file_with(b"(one)\n");
    let seen = read_text(&target).unwrap().fingerprint;
    let path = folder.path().join("f");
    let now = || Fingerprint::of_file(&fs::File::open(&path).unwrap()).unwrap();
    fs::write(&path, b"(one)\n").unwrap();
    assert!(seen.same_content(&now()));
    assert!(seen.same_content(&Fingerprint::of_bytes(b"(one)\n")));
    fs::write(&path, b"(two)\n").unwrap();
    assert!(!seen.same_content(&now()));
}

#[test]
fn sizes_are_readable() {
    let sizes = [0, 1023, 1024, 2355, 1 << 20, 5 << 30].map(human_size);
    assert_eq!(
        sizes,
        ["0 B", "1023 B", "1.0 KB", "2.3 KB", "1.0 MB", "5.0 GB"]
    );
}

proptest! {
    /// Pages one after another give the whole text again.
    #[test]
    fn pages_join_to_the_text(lines in prop::collection::vec("[a-z λ]{0,12}", 0..40), limit in 1i64..7) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let (_folder, target) = file_with(text.as_bytes());
        let (mut joined, mut offset) = (String::new(), Some(1));
        while let Some(first) = offset {
            let window = Window::new(Some(i64::try_from(first).unwrap()), Some(limit)).unwrap();
            let page = read_page(&target, window).unwrap();
            joined.push_str(&page.text());
            offset = page.next;
        }
        prop_assert_eq!(joined, text);
    }

    /// What is decoded and not changed gives the same bytes again.
    #[test]
    fn decoding_loses_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((text, encoding)) = decode(&bytes, "f") {
            prop_assert_eq!(encode(&text, encoding).unwrap(), bytes);
        }
    }

    #[test]
    fn every_text_survives_in_utf_16(text in "\\PC{1,40}") {
        let bytes = encode(&text, Encoding::Utf16Little(Mark::Present)).unwrap();
        prop_assert_eq!(decode(&bytes, "f").unwrap().0, text);
    }
}
