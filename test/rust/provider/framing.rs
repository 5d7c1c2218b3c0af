// SPDX-License-Identifier: GPL-3.0-or-later
//! The decoder of server-sent events: what counts as an event, and that chunking never matters.

use agent_q_core::provider::framing::{EventSource, SseDecoder, SseError, SseEvent};
use proptest::prelude::*;

type Event = (String, String);

fn decode(chunks: &[&[u8]]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut decoder = SseDecoder::default();
    for chunk in chunks {
        decoder
            .push(chunk, &mut |event| {
                events.push((event.name.into_owned(), event.data.into_owned()));
            })
            .expect("no event is too large");
    }
    decoder.finish(&mut |event| events.push((event.name.into_owned(), event.data.into_owned())));
    events
}

/// The lines among BYTES that are no field of an event.
fn stray(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut sink = |event: SseEvent<'_>| {
        if event.source == EventSource::StrayLine {
            lines.push(event.data.into_owned());
        }
    };
    let mut decoder = SseDecoder::default();
    decoder
        .push(bytes, &mut sink)
        .expect("no event is too large");
    decoder.finish(&mut sink);
    lines
}

fn data(bytes: &[u8]) -> Vec<String> {
    decode(&[bytes]).into_iter().map(|(_, data)| data).collect()
}

#[test]
fn one_optional_space_belongs_to_the_colon() {
    assert_eq!(data(b"data:a\n\ndata: b\n\ndata:  c\n\n"), ["a", "b", " c"]);
}

#[test]
fn lines_of_data_are_joined() {
    assert_eq!(data(b"data: {\ndata:\ndata: }\n\n"), ["{\n\n}"]);
    assert_eq!(data(b"data\n\n"), [""]);
}

#[test]
fn comments_and_other_fields_are_no_data() {
    let stream = b": ping\n\n:\n\nid: 7\nretry: 10\ndata: x\n: inside\n\n";
    assert_eq!(data(stream), ["x"]);
    assert!(stray(stream).is_empty());
}

#[test]
fn lines_that_are_no_field_are_told_apart() {
    assert_eq!(
        stray(b"data: x\n\nupstream error: reset\n{\"error\": 1}\nother\n\n"),
        ["upstream error: reset", "{\"error\": 1}", "other"]
    );
}

#[test]
fn a_whole_object_ends_its_event_without_a_blank_line() {
    for end in ["\n", "\r\n"] {
        let stream = [
            "event: a",
            "data: {\"x\":",
            "data: \"}\"}",
            "event: b",
            "data: {}",
            "data: [DONE]",
            "",
            "",
        ];
        let names = decode(&[stream.join(end).as_bytes()]);
        let expected = [("a", "{\"x\":\n\"}\"}"), ("b", "{}"), ("", "[DONE]")];
        assert_eq!(
            names,
            expected.map(|(name, data)| (name.to_owned(), data.to_owned()))
        );
    }
}

#[test]
fn a_name_holds_for_one_event() {
    let events = decode(&[b"event: error\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n"]);
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["error", "", ""]);
}

#[test]
fn every_line_end_counts_once() {
    assert_eq!(
        data(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n"),
        ["a", "b", "c"]
    );
    assert_eq!(
        decode(&[b"data: a\r", b"\n\r", b"\ndata: b\r", b"\ndata: c\r\n\r\n"]),
        decode(&[b"data: a\n\ndata: b\ndata: c\n\n"])
    );
}

#[test]
fn an_event_is_complete_at_the_carriage_return() {
    let mut seen = 0;
    let mut decoder = SseDecoder::default();
    decoder
        .push(b"data: a\r\r", &mut |_| seen += 1)
        .expect("small");
    assert_eq!(seen, 1);
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_only() {
    assert_eq!(
        data("\u{feff}data: \u{feff}a\n\n".as_bytes()),
        ["\u{feff}a"]
    );
    assert_eq!(
        stray("\n\u{feff}data: a\n\n".as_bytes()),
        ["\u{feff}data: a"]
    );
    assert_eq!(
        decode(&[b"\xEF", b"\xBB", b"\xBFda", b"ta: a\n\n"]).len(),
        1
    );
}

#[test]
fn unicode_line_separators_end_no_line() {
    assert_eq!(
        data("data: a\u{2028}b\u{85}c\n\n".as_bytes()),
        ["a\u{2028}b\u{85}c"]
    );
}

#[test]
fn the_end_flushes_what_has_no_blank_line() {
    assert_eq!(data(b"data: a\n\ndata: b\n"), ["a", "b"]);
    assert_eq!(data(b"data: a\n\ndata: b"), ["a", "b"]);
    assert_eq!(data(b"data: a\n\n: ping"), ["a"]);
}

#[test]
fn invalid_utf_8_is_replaced() {
    assert_eq!(data(b"data: a\xFFb\n\n"), ["a\u{fffd}b"]);
}

#[test]
fn a_large_event_may_come_byte_by_byte() {
    let text = format!("data: {}\n\n", "é".repeat(512 * 1024));
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    let events = decode(&bytes);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].1.len(), 1024 * 1024);
}

#[test]
fn an_endless_event_is_refused() {
    for endless in [
        &b"data: aaaaaaaaaa"[..],
        b"data: aaa\ndata: bbb\ndata: ccc\n",
    ] {
        let mut decoder = SseDecoder::with_limit(12);
        assert_eq!(
            decoder.push(endless, &mut |_| {}),
            Err(SseError::TooLarge { limit: 12 })
        );
    }
    let mut decoder = SseDecoder::with_limit(12);
    let many_small = b"data: a\n\n".repeat(100);
    assert_eq!(decoder.push(&many_small, &mut |_| {}), Ok(()));
}

/// Cut `bytes` at these fractions of its length.
fn cut<'b>(bytes: &'b [u8], cuts: &[prop::sample::Index]) -> Vec<&'b [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|it| it.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect()
}

/// Bytes of which most sequences mean something to the decoder.
fn telling_bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"\r",
        b"\n",
        b"\r\n",
        b"data: ",
        b"data:",
        b"event:",
        b":",
        b" ",
        b"x",
        "é€𝄞\u{2028}".as_bytes(),
        b"\xEF\xBB\xBF",
        b"\xC3",
        b"\n\n",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..60).prop_map(|it| it.concat())
}

#[derive(Debug, Clone)]
struct Written {
    name: String,
    lines: Vec<String>,
    line_end: &'static str,
    comment: bool,
}

fn written_event() -> impl Strategy<Value = Written> {
    let text = "[^\r\n\u{feff}]{0,12}";
    (
        "[a-z]{0,3}",
        prop::collection::vec(text, 1..4),
        prop::sample::select(vec!["\n", "\r", "\r\n"]),
        any::<bool>(),
    )
        .prop_map(|(name, lines, line_end, comment)| Written {
            name,
            lines,
            line_end,
            comment,
        })
}

impl Written {
    fn bytes(&self) -> String {
        let end = self.line_end;
        let mut text = String::new();
        if self.comment {
            text.push_str(&format!(": ping{end}"));
        }
        if !self.name.is_empty() {
            text.push_str(&format!("event:{}{end}", self.name));
        }
        for line in &self.lines {
            text.push_str(&format!("data: {line}{end}"));
        }
        text + end
    }
}

proptest! {
    #[test]
    fn chunking_never_matters(
        bytes in telling_bytes(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let whole = decode(&[&bytes]);
        prop_assert_eq!(decode(&cut(&bytes, &cuts)), whole.clone());
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(decode(&single), whole);
    }

    #[test]
    fn what_was_written_is_read(
        events in prop::collection::vec(written_event(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let text: String = events.iter().map(Written::bytes).collect();
        let expected: Vec<Event> =
            events.iter().map(|it| (it.name.clone(), it.lines.join("\n"))).collect();
        prop_assert_eq!(decode(&cut(text.as_bytes(), &cuts)), expected);
    }
}
