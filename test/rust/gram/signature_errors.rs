// SPDX-License-Identifier: GPL-3.0-or-later
//! Type signatures that are wrong: every error, with its place and what was expected there.

use agent_q_core::gram::{parse_type_signature, type_signature_to_json_schema};

#[test]
fn what_is_no_signature_is_rejected_with_its_place() {
    let cases = [
        // B10, and other texts that are no gram, or another pattern
        (
            "(name: Text) --> IO Text",
            "1:18 the node behind the arrow",
            "`IO`",
        ),
        (
            "(::Maybe Text)==>(::String)",
            "1:10 a label, a record or `)`",
            "`Text`",
        ),
        ("", "1:1 a type signature such as", "nothing"),
        (
            "[a | (::String)]",
            "1:1 a type signature such as",
            "another pattern",
        ),
        (
            "{k: 1} (::Text)",
            "1:1 a type signature such as",
            "a record",
        ),
        (
            "@k(1) (::Text)",
            "1:7 a signature without annotations",
            "annotated",
        ),
        (
            "(::Text)\n(::Text)",
            "2:1 the end of the type signature",
            "another pattern",
        ),
        // labels
        (
            "(::Maybe)==>(::String)",
            "1:4 a type: Text, String, Int",
            "\"Maybe\"",
        ),
        ("(::text)==>(::String)", "1:4 a type:", "\"text\""),
        (
            "(a::Text::Int)==>(::String)",
            "1:11 one type label",
            "a second label, `Int`",
        ),
        (
            "(a)==>(::String)",
            "1:1 one type label",
            "a node without a label",
        ),
        (
            "(::Text)==>()",
            "1:12 one type label",
            "a node without a label",
        ),
        (
            "()==>(::Text)==>(::Text)",
            "1:1 one type label",
            "a node without a label",
        ),
        ("(::Text)==>(::Nothing)", "1:15 a type:", "\"Nothing\""),
        // names
        (
            "(a::Text)==>(a::Int)==>(::Text)",
            "1:14 parameter names that are unique",
            "a second `a`",
        ),
        (
            "(a::Text)==>(::Int {paramName:\"a\"})==>(::Text)",
            "1:31 parameter names",
            "a second `a`",
        ),
        (
            "(::Text)==>(arg1::Int)==>(::Text)",
            "1:13 parameter names",
            "a second `arg1`",
        ),
        (
            "(a::Text {paramName:\"b\"})==>(::Text)",
            "1:21 paramName to be `a`",
            "\"b\"",
        ),
        (
            "(::Text {paramName:\"\"})==>(::Text)",
            "1:20 a name that isn't empty",
            "\"\"",
        ),
        (
            "(::Text {paramName:1})==>(::Text)",
            "1:20 a name, a string",
            "`1`",
        ),
        // arrows
        (
            "(a::Text)<==(b::Text)==>(::Text)",
            "1:10 an arrow to the right",
            "one to the left",
        ),
        // properties
        (
            "(a::Text {optinal:true})==>(::Text)",
            "1:11 a property of a parameter: paramName",
            "\"optinal\"",
        ),
        (
            "(::Text)==>(::Text {optional:true})",
            "1:21 a property of a return type",
            "\"optional\"",
        ),
        (
            "(a::Text {optional:yes})==>(::Text)",
            "1:20 true or false",
            "`yes`",
        ),
        (
            "(a::Text {description:[1]})==>(::Text)",
            "1:23 a description, a string",
            "an array",
        ),
        (
            "(a::Text {minimum:1})==>(::Text)",
            "1:19 minimum only with a number type",
            "Text",
        ),
        (
            "(a::Int {maximum:\"1\"})==>(::Text)",
            "1:18 a number",
            "\"1\"",
        ),
        (
            "(a::Int {minimum:2, maximum:1})==>(::Text)",
            "1:29 a maximum that isn't below",
            "1",
        ),
        (
            "(a::Text {enum:[]})==>(::Text)",
            "1:16 an array of the values allowed",
            "an array",
        ),
        (
            "(a::Text {enum:\"x\"})==>(::Text)",
            "1:16 an array of the values allowed",
            "\"x\"",
        ),
        (
            "(a::Text {enum:[x, 1]})==>(::Text)",
            "1:20 a value of type Text",
            "`1`",
        ),
        // inner types
        (
            "(a::Text {elementType:\"Text\"})==>(::Text)",
            "1:23 elementType only with",
            "Text",
        ),
        (
            "(a::Array {elementType:\"Foo\"})==>(::Text)",
            "1:25 a type: Text",
            "\"Foo\"",
        ),
        (
            "(a::Array {elementType:\"[Text\"})==>(::Text)",
            "1:30 `]`",
            "the end of the text",
        ),
        (
            "(a::Array {elementType:\"Maybe Text\"})==>(::Text)",
            "1:24 the type of every",
            "a Maybe",
        ),
        (
            "(a::Array {elementType:\"[Maybe Text]\"})==>(::Text)",
            "1:26 the type of every",
            "a Maybe",
        ),
        (
            "(a::Array {elementType:\"Text Int\"})==>(::Text)",
            "1:30 the end of the type",
            "`Int`",
        ),
        (
            "(a::Array {elementType:\"{x: Int, x: Int}\"})==>(::Text)",
            "1:34 field names",
            "a second `x`",
        ),
        (
            "(a::Array {elementType:7})==>(::Text)",
            "1:24 a type, a string",
            "`7`",
        ),
        (
            "(a::Text {fields:[]})==>(::Text)",
            "1:18 fields only with the bare type Object",
            "Text",
        ),
        (
            "(a::Array {elementType:\"{}\", fields:[]})==>(::Text)",
            "1:37 fields only with",
            "Array",
        ),
        (
            "(a::Object {fields:{}})==>(::Text)",
            "1:20 an array of fields",
            "a map",
        ),
        (
            "(a::Object {fields:[x]})==>(::Text)",
            "1:21 a field, such as",
            "`x`",
        ),
        (
            "(a::Object {fields:[{type:\"Int\"}]})==>(::Text)",
            "1:21 a field with `name`",
            "without",
        ),
        (
            "(a::Object {fields:[{name:x}]})==>(::Text)",
            "1:21 a field with `type`",
            "without",
        ),
        (
            "(a::Object {fields:[{name:x, type:Int, typ:1}]})==>(::Text)",
            "1:40 a property of a field",
            "\"typ\"",
        ),
        (
            "(a::Object {fields:[{name:x, type:Int},\n {name:x, type:Int}]})==>(::Text)",
            "2:2 field names that are unique",
            "a second `x`",
        ),
        // defaults
        (
            "(a::Text {default:1})==>(::Text)",
            "1:19 a value of type Text",
            "`1`",
        ),
        (
            "(a::Int {default:\"1\"})==>(::Text)",
            "1:18 a value of type Int",
            "\"1\"",
        ),
        (
            "(a::Int {default:1.5})==>(::Text)",
            "1:18 a value of type Int",
            "`1.5`",
        ),
        (
            "(a::Int {default:5kg})==>(::Text)",
            "1:18 a value of type Int",
            "`5kg`",
        ),
        (
            "(a::Bool {default:1})==>(::Text)",
            "1:19 a value of type Bool",
            "`1`",
        ),
        (
            "(a::Object {default:[]})==>(::Text)",
            "1:21 a value of type Object",
            "an array",
        ),
        (
            "(a::Array {default:[1, 1..2]})==>(::Text)",
            "1:24 a value that JSON has",
            "a range",
        ),
        (
            "(a::Array {elementType:\"Int\", default:[1, x]})==>(::Text)",
            "1:43 a value of type Int",
            "`x`",
        ),
        (
            "(a::Text {default:null})==>(::Text)",
            "1:19 a value; a parameter that may be missing",
            "`null`",
        ),
        (
            "(a::Text {enum:[x], default:y})==>(::Text)",
            "1:29 one of \"x\"",
            "`y`",
        ),
        (
            "(a::Int {minimum:1, default:0})==>(::Text)",
            "1:29 a number of at least 1",
            "`0`",
        ),
        (
            "(a::Int {maximum:1, default:2})==>(::Text)",
            "1:29 a number of at most 1",
            "`2`",
        ),
        (
            "(a::Object {fields:[{name:x, type:Int}], default:{}})==>(::Text)",
            "1:50 an object with the field `x`",
            "a map",
        ),
    ];
    for (text, expected, found) in cases {
        let error = parse_type_signature(text).expect_err(text);
        let place = format!("{}:{} {}", error.line, error.column, error.expected);
        assert!(place.starts_with(expected), "{text}: {place}");
        assert!(error.found.contains(found), "{text}: found {}", error.found);
        assert_eq!(type_signature_to_json_schema(text), Err(error), "{text}");
    }
}

#[test]
fn hostile_types_are_rejected() {
    let deep = format!(
        "(a::Array {{elementType:\"{}Int\"}})==>(::Text)",
        "[".repeat(200_000)
    );
    assert!(
        parse_type_signature(&deep)
            .unwrap_err()
            .expected
            .contains("levels")
    );
    // Each level alone is shallow enough; together they are not.
    let arrays = format!("{}Object{}", "[".repeat(60), "]".repeat(60));
    let inner = format!("fields:[{{name:x, type:\"{arrays}\", fields:[]}}]");
    let both = format!("(a::Array {{elementType:\"{arrays}\", {inner}}})==>(::Text)");
    assert!(
        parse_type_signature(&both)
            .unwrap_err()
            .expected
            .contains("levels of types")
    );
}

#[test]
fn integers_keep_their_digits_or_are_refused_with_their_place() {
    let beyond = "18446744073709551616";
    let wide = "an integer that fits into 64 bits";
    for (property, column) in [
        (format!("default:{beyond}"), 18),
        (format!("minimum:{beyond}"), 18),
        (format!("maximum:-{beyond}"), 18),
        ("maximum:0x10000000000000000".to_owned(), 18),
        ("default:02000000000000000000000".to_owned(), 18),
        (format!("enum:[1, {beyond}]"), 19),
    ] {
        for kind in ["Int", "Double"] {
            let text = format!("(n::{kind} {{{property}}})==>(::Text)");
            let error = type_signature_to_json_schema(&text).expect_err(&text);
            let column = column + kind.len() - "Int".len();
            assert_eq!((error.line, error.column), (1, column), "{text}");
            assert!(error.expected.starts_with(wide), "{text}: {error}");
        }
    }
    let nested = format!("(a::Object {{\ndefault:{{deep:[1, {beyond}]}}}})==>(::Text)");
    let error = type_signature_to_json_schema(&nested).unwrap_err();
    assert_eq!((error.line, error.column), (2, 19), "{error}");
    assert!(error.expected.starts_with(wide), "{error}");
    // What has another type is told so, however many digits it has.
    let text = format!("(a::Text {{default:{beyond}}})==>(::Text)");
    let error = type_signature_to_json_schema(&text).unwrap_err();
    assert_eq!(error.expected, "a value of type Text");
}

#[test]
fn integers_of_64_bits_are_exact() {
    for (written, number) in [
        ("18446744073709551615", "18446744073709551615"),
        ("9223372036854775808", "9223372036854775808"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9007199254740993", "9007199254740993"),
        ("0xFFFFFFFFFFFFFFFF", "18446744073709551615"),
    ] {
        for property in ["default", "minimum", "maximum"] {
            let text = format!("(n::Int {{{property}:{written}}})==>(::Text)");
            let schema = type_signature_to_json_schema(&text).unwrap();
            assert_eq!(
                schema["properties"]["n"][property].to_string(),
                number,
                "{text}"
            );
        }
    }
    // Floating-point numbers couldn't tell these apart.
    let bounds = "minimum:9007199254740993, maximum:9007199254740993";
    for (default, fits) in [
        ("9007199254740992", false),
        ("9007199254740993", true),
        ("9007199254740994", false),
    ] {
        let text = format!("(n::Int {{{bounds}, default:{default}}})==>(::Text)");
        assert_eq!(parse_type_signature(&text).is_ok(), fits, "{text}");
    }
    let crossed = "(n::Int {minimum:9007199254740993, maximum:9007199254740992})==>(::Text)";
    assert!(parse_type_signature(crossed).is_err());
}
