// SPDX-License-Identifier: GPL-3.0-or-later
//! What goes to the Lisp image and what comes back: arguments as Emacs reads them, replies as they
//! are, cut off, and made up.

use std::process::Command;

use agent_q_core::image::{
    ConditionReport, Frame, ImageReply, Plist, Stopped, parse_added, parse_reply, print_arguments,
    property_list,
};
use lexpr::Value;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

#[test]
fn arguments_without_a_value_are_left_out() {
    let arguments = property_list([
        ("form", Value::string("(print \"a\\b\")\n?")),
        ("package", Value::Null),
        ("full", Value::Bool(true)),
        ("limit", Value::from(-3)),
    ]);
    assert_eq!(
        print_arguments(&arguments),
        "(:form \"(print \\\"a\\\\b\\\")\n?\" :full t :limit -3)"
    );
    assert_eq!(print_arguments(&property_list([("a", Value::Null)])), "nil");
}

#[test]
fn nested_lists_keep_their_shape() {
    let value = Value::list(vec![
        Value::list(vec![Value::string("a"), Value::keyword("b")]),
        Value::Null,
        Value::cons(Value::from(1), Value::from(2)),
    ]);
    assert_eq!(print_arguments(&value), "((\"a\" :b) nil (1 . 2))");
}

/// Emacs is the reader that counts.
#[test]
fn emacs_reads_the_strings_that_were_printed() {
    let mut strings: Vec<String> = [
        "",
        "\\",
        "\"",
        "\\\"",
        "?\\",
        ";x\n\r\t",
        "\\x41 \\\n",
        "#1=",
        "\0\u{1}\u{7f}",
        "λ→🦀",
        "\u{feff}\u{10ffff}",
    ]
    .iter()
    .map(|&it| it.to_owned())
    .collect();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..300 {
        let tree = any::<String>().new_tree(&mut runner);
        strings.push(tree.map(|it| it.current()).unwrap_or_default());
    }
    let text = print_arguments(&Value::list(
        strings
            .iter()
            .map(|it| Value::string(it.as_str()))
            .collect::<Vec<_>>(),
    ));
    let file = std::env::temp_dir().join(format!("agent-q-read-{}", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let program = "(with-temp-buffer
        (let ((coding-system-for-read 'utf-8-unix))
          (insert-file-contents (pop command-line-args-left)))
        (let ((text (buffer-string)) (standard-output #'external-debugging-output))
          (erase-buffer)
          (insert (json-serialize (vconcat (car (read-from-string text)))))
          (let ((coding-system-for-write 'utf-8-unix))
            (write-region nil nil (pop command-line-args-left) nil 'silent))))";
    let answer = file.with_extension("json");
    let emacs = Command::new("emacs")
        .args(["-Q", "--batch", "--eval", program])
        .args([&file, &answer])
        .output();
    let Ok(output) = emacs else {
        eprintln!("Skipped: there is no emacs to read with.");
        return;
    };
    let answer_text = std::fs::read_to_string(&answer)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let read: Vec<String> = serde_json::from_str(&answer_text).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(&answer).unwrap();
    assert_eq!(read, strings);
}

#[test]
fn a_returned_property_list_is_read_by_name() {
    let reply = parse_reply(
        "(:outcome :returned :value (:name \"a \\\"b\\\" \\\\ λ\n\" :status :external :total 12 \
         :flag t :none nil :list (\"x\" \"y\") :plists ((:a 1) (:a 2))))",
    )
    .unwrap();
    let ImageReply::Returned(value) = &reply else {
        panic!("{reply:?}")
    };
    let data = Plist::new(value);
    assert_eq!(data.text("name"), Some("a \"b\" \\ λ\n"));
    assert_eq!(data.keyword("status"), Some("external"));
    assert_eq!(data.integer("total"), Some(12));
    assert!(data.flag("flag") && !data.flag("none") && !data.flag("absent"));
    assert_eq!(data.texts("list"), ["x", "y"]);
    let numbers: Vec<_> = data.plists("plists").map(|it| it.integer("a")).collect();
    assert_eq!(numbers, [Some(1), Some(2)]);
    assert_eq!(data.text("list"), None);
}

#[test]
fn a_reply_says_once_what_was_not_allowed() {
    let text = "(:outcome :missed :message \"No.\" :denials (\"a\" \"b\" \"a\"))";
    let (reply, denials) = parse_added(text, None).unwrap();
    assert_eq!(reply, ImageReply::Missed("No.".to_owned()));
    assert_eq!(denials, ["a", "b"]);
}

#[test]
fn places_come_where_the_text_has_locations() {
    let text = "(:outcome :returned :value ((:doc \":location (:a 1)\" :location (:file \"x)\" :location (:no 1)) :line 3) \
                (:location nil) (:what :location)) :location (:at 4))";
    let added = "(:places ((:where \"/x:1\" :lost t) (:where \"/y:2\")) :because nil)";
    let expected = parse_reply(
        "(:outcome :returned :value ((:doc \":location (:a 1)\" :where \"/x:1\" :lost t :line 3) \
         (:location nil) (:what :location)))",
    );
    let parsed = |added| parse_added(text, added).map(|(reply, _)| reply);
    assert_eq!(parsed(Some(added)), expected);
    // Where Emacs could not look at places, they stay as they are.
    assert_eq!(parsed(Some("(:places nil)")), parse_reply(text));
    for added in ["(:places ((:where \"/x:1\")))", "(:places", "(:places . 1)"] {
        let error = parsed(Some(added)).unwrap_err().to_string();
        assert!(error.contains("Cannot parse the reply"), "{error}");
    }
}

#[test]
fn emacs_says_why_a_call_was_stopped() {
    let because = |text| match parse_added(text, Some("(:places nil :because \"cancelled\")")) {
        Ok((ImageReply::Cancelled(stopped), _)) => stopped.because,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        because("(:outcome :cancelled :because \"the image's\")").as_deref(),
        Some("cancelled")
    );
    assert_eq!(
        because("(:outcome :cancelled :unclean t)").as_deref(),
        Some("cancelled; its cleanup didn't end and was left out")
    );
}

#[test]
fn every_outcome_is_known() {
    assert_eq!(
        parse_reply("(:outcome :missed :message \"Symbol FOO not found.\")"),
        Ok(ImageReply::Missed("Symbol FOO not found.".to_owned()))
    );
    assert_eq!(
        parse_reply(
            "(:outcome :cancelled :because \"timed out after 3 s\" :allocated \"5 MB\" \
              :frames (\"(F 1)\") :output \"o\" :value nil)"
        ),
        Ok(ImageReply::Cancelled(Stopped {
            because: Some("timed out after 3 s".to_owned()),
            allocated: Some("5 MB".to_owned()),
            frames: vec![Frame {
                text: "(F 1)".to_owned(),
                place: None
            }],
            output: "o".to_owned(),
            value: Value::Null
        }))
    );
    let error = parse_reply(
        "(:outcome :error :type \"SIMPLE-ERROR\" :message \"boom\" \
         :restarts ((\"CONTINUE\" \"go on\") (\"ABORT\" nil)) :frames (\"(F 1)\") :output \"\" :value nil)",
    );
    assert_eq!(
        error,
        Ok(ImageReply::Error(ConditionReport {
            condition_type: "SIMPLE-ERROR".to_owned(),
            message: "boom".to_owned(),
            restarts: vec![
                ("CONTINUE".to_owned(), "go on".to_owned()),
                ("ABORT".to_owned(), String::new())
            ],
            frames: vec![Frame {
                text: "(F 1)".to_owned(),
                place: None,
            }],
            output: String::new(),
            value: Value::Null,
            debugger: None,
        }))
    );
}

#[test]
fn what_is_no_reply_is_a_sentence() {
    let deep = format!("{}{}", "(".repeat(100_000), ")".repeat(100_000));
    let quotes = format!("(:outcome {}", "'".repeat(60_000));
    for text in [
        "",
        "nil",
        "()",
        "(",
        ")",
        "(:outcome)",
        "(:outcome :returned",
        "(:outcome :unheard-of)",
        "(:outcome :missed)",
        "(:outcome . :missed)",
        "(:value 1)",
        "(:outcome :returned :value #(1))",
        "(:outcome :returned :value \"a",
        "(:outcome :returned :value \"\\x\")",
        "\"text\"",
        "42",
        "(:outcome :returned) junk(",
        "(a b) (c d)",
        &deep,
        &quotes,
    ] {
        let error = parse_reply(text).map_err(|error| error.to_string());
        let error = error.expect_err(&text.chars().take(40).collect::<String>());
        assert!(error.contains("Cannot parse the reply"), "{error}");
    }
}

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::string),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null),
        Just(Value::Bool(true)),
        "[a-z][a-z0-9-]{0,8}".prop_map(Value::keyword),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop::collection::vec(inner, 1..6).prop_map(Value::list)
    })
}

proptest! {
    #[test]
    fn what_is_sent_in_our_syntax_is_what_arrives(value in data()) {
        let text = format!("(:outcome :returned :value {})", print_arguments(&value));
        prop_assert_eq!(parse_reply(&text), Ok(ImageReply::Returned(value)));
    }

    #[test]
    fn nothing_makes_the_parser_fail(text in "[():\"\\\\a-z0-9 '#.;,`\\[\\]|é-]{0,60}") {
        let _ = parse_reply(&text);
        let _ = parse_reply(&format!("(:outcome :returned :value {text})"));
        let _ = parse_reply(&format!("(:outcome :error {text}"));
        let _ = parse_added(&format!("(:outcome :returned :location (1) {text})"), Some(&text));
        let _ = parse_added(&text, Some(&format!("(:places {text})")));
    }

    #[test]
    fn a_reply_cut_off_anywhere_is_an_error(cut in 0_usize..120) {
        let text = "(:outcome :error :type \"E\" :message \"m (λ) \\\" \\\\\" :restarts ((\"A\" \"b\")) :frames (\"(F 1)\") :output \"o\")";
        if let Some(text) = text.get(..cut.min(text.len() - 1)) {
            prop_assert!(parse_reply(text).is_err());
        }
    }
}
