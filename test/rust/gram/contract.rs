// SPDX-License-Identifier: GPL-3.0-or-later
//! Type signatures that are right: the contract's cases, and the decisions on what it leaves open.

use agent_q_core::gram::{
    SignatureParameter, SignaturePresence, TypeSignature, ValueType, parse_type_signature,
    type_signature_to_json_schema,
};
use serde_json::{Value, json};

fn schema(text: &str) -> Value {
    type_signature_to_json_schema(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn signature(text: &str) -> TypeSignature {
    parse_type_signature(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The schema of an object with these properties, all of which are required.
fn object(properties: Value) -> Value {
    let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
    json!({"type": "object", "properties": properties, "required": required})
}

#[test]
fn the_contracts_signatures_have_its_schemas() {
    let person = r#"(::Object {paramName:"params", fields:[{name:"name", type:"Text"}, {name:"age", type:"Int"}]})==>(::String)"#;
    let address = r#"(::Object {paramName:"person", fields:[{name:"name", type:"Text"},
        {name:"address", type:"Object", fields:[{name:"city", type:"Text"}, {name:"country", type:"Text"}]}]})==>(::String)"#;
    let text = json!({"type": "string"});
    let integer = json!({"type": "integer"});
    let cases = [
        ("B1", "()==>(::String)", object(json!({}))),
        (
            "B2",
            r#"(::Text {paramName:"name"})==>(::String)"#,
            object(json!({"name": text})),
        ),
        (
            "B3",
            r#"(::Text {paramName:"name"})==>(::Int {paramName:"age"})==>(::String)"#,
            object(json!({"name": text, "age": integer})),
        ),
        (
            "B4",
            r#"(::Text {paramName:"name"})==>(::Int {paramName:"age", optional:true})==>(::String)"#,
            json!({"type": "object", "properties": {"name": text, "age": integer}, "required": ["name"]}),
        ),
        (
            "B5",
            person,
            object(json!({"params": object(json!({"name": text, "age": integer}))})),
        ),
        (
            "B6",
            address,
            object(json!({"person": object(json!({"name": text,
                "address": object(json!({"city": text, "country": text}))}))})),
        ),
        (
            "B7",
            r#"(::Array {paramName:"items", elementType:"Text"})==>(::Int)"#,
            object(json!({"items": {"type": "array", "items": text}})),
        ),
        (
            "C1",
            r#"(personName::String {default:"world"})==>(::String)"#,
            json!({"type": "object", "properties": {"personName": {"type": "string", "default": "world"}}, "required": []}),
        ),
        (
            "C2",
            "(limit::Integer {default:10})==>(::Array)",
            json!({"type": "object", "properties": {"limit": {"type": "integer", "default": 10}}, "required": []}),
        ),
        (
            "C4",
            "(userParams::Object)==>(::String)",
            object(json!({"userParams": {"type": "object"}})),
        ),
    ];
    for (name, text, expected) in cases {
        assert_eq!(schema(text).to_string(), expected.to_string(), "{name}");
    }
}

#[test]
fn b8_a_search_with_optional_filters() {
    let text = r#"
      (::Object {paramName:"searchParams", fields:[
        {name:"query", type:"Text"},
        {name:"filters", type:"Object", fields:[
          {name:"category", type:"Text", optional:true},
          {name:"priceRange", type:"Object", optional:true, default:{min:0.0, max:1.0}, fields:[
            {name:"min", type:"Double"}, {name:"max", type:"Double"}]}]},
        {name:"limit", type:"Int", optional:true}]})
      ==>(::Array {elementType:"Text"})"#;
    let schema = schema(text);
    let search = &schema["properties"]["searchParams"];
    assert_eq!(schema["required"], json!(["searchParams"]));
    assert_eq!(search["required"], json!(["query", "filters"]));
    assert_eq!(search["properties"]["filters"]["required"], json!([]));
    let range = &search["properties"]["filters"]["properties"]["priceRange"];
    assert_eq!(range["required"], json!(["min", "max"]));
    assert_eq!(range["properties"]["max"], json!({"type": "number"}));
    assert_eq!(range["default"], json!({"min": 0.0, "max": 1.0}));
    assert_eq!(search["properties"]["limit"], json!({"type": "integer"}));
    assert_eq!(
        signature(text).result.kind,
        ValueType::array_of(ValueType::Text)
    );
}

#[test]
fn b9_any_arrow_makes_the_same_signature() {
    let expected = signature(r#"(::Text {paramName:"name"})==>(::String)"#);
    for arrow in [
        "-->",
        "~~>",
        "--",
        "==",
        "<-->",
        "-[:FunctionType]->",
        " = \n => ",
    ] {
        let text = format!(r#"(::Text {{paramName:"name"}}){arrow}(::String)"#);
        assert_eq!(signature(&text), expected, "{text}");
    }
    assert_eq!(
        signature(r#"(::String)<==(::Text {paramName:"name"})"#),
        expected
    );
    let curried = signature("(a::Text)==>(::String)<==(b::Int)");
    let names: Vec<&str> = curried
        .parameters
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(curried.result.kind, ValueType::Text);
}

#[test]
fn a_signature_without_parameters_is_an_empty_node_or_none() {
    for text in [
        "()==>(::String)",
        "( ) --> (::String)",
        "(::String)",
        "(result:String)",
    ] {
        assert_eq!(signature(text).parameters, [], "{text}");
        assert_eq!(signature(text).result.kind, ValueType::Text, "{text}");
    }
}

#[test]
fn both_label_sets_name_the_same_types() {
    let types = [
        (["Text", "String"], "string"),
        (["Int", "Integer"], "integer"),
        (["Double", "Number"], "number"),
        (["Bool", "Boolean"], "boolean"),
        (["Object", "Object"], "object"),
        (["Array", "Array"], "array"),
    ];
    for (labels, expected) in types {
        for label in labels {
            for text in [
                format!("(x:{label})==>(::{label})"),
                format!("(x::{label})-->(:{label})"),
            ] {
                assert_eq!(
                    schema(&text)["properties"]["x"],
                    json!({"type": expected}),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn a_parameter_is_named_by_its_node_or_its_property() {
    let names = |text: &str| -> Vec<String> {
        signature(text)
            .parameters
            .into_iter()
            .map(|parameter| parameter.name)
            .collect()
    };
    assert_eq!(
        names("(a::Text)==>(::Text {paramName:\"b c\"})==>(::Text)"),
        ["a", "b c"]
    );
    assert_eq!(names("(a::Text {paramName:\"a\"})==>(::Text)"), ["a"]);
    assert_eq!(
        names("(::Text)==>(b::Int)==>(::Bool)==>(::Text)"),
        ["arg1", "b", "arg3"]
    );
    assert_eq!(names("(::Text {paramName: name})==>(::Text)"), ["name"]);
}

#[test]
fn what_describes_a_parameter_goes_into_its_schema() {
    let text = r#"(level::Integer {description:"How loud", minimum:0, maximum:0x0B, enum:[0, 5, 11], default:5})
        ==>(mode::Text {enum:[soft, "hard"], optional:false})==>(::String)"#;
    let expected = json!({
        "type": "object",
        "properties": {
            "level": {"type": "integer", "description": "How loud", "enum": [0, 5, 11],
                      "default": 5, "minimum": 0, "maximum": 11},
            "mode": {"type": "string", "enum": ["soft", "hard"]},
        },
        "required": ["mode"],
    });
    assert_eq!(schema(text).to_string(), expected.to_string());
    let result = signature(r#"(::Text)==>(out::String {description:"A greeting"})"#).result;
    assert_eq!(result.name.as_deref(), Some("out"));
    assert_eq!(result.description.as_deref(), Some("A greeting"));
}

#[test]
fn types_in_strings_may_be_maybe_lists_and_records() {
    let text = r#"(::Object {paramName:"p", fields:[
        {name:"a", type:"Maybe Int"}, {name:"b", type:"[[Text]]"},
        {name:"c", type:"Maybe {x: Double, y: Maybe [Bool]}"}, {name:"d", type: Text},
        {name:"e", type:"[Object]", fields:[{name:"f", type:"{}"}]}]})==>(::Array {elementType:"{k: Text}"})"#;
    let expected = json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
            "c": {"type": "object",
                  "properties": {"x": {"type": "number"},
                                 "y": {"type": "array", "items": {"type": "boolean"}}},
                  "required": ["x"]},
            "d": {"type": "string"},
            "e": {"type": "array",
                  "items": {"type": "object",
                            "properties": {"f": {"type": "object", "properties": {}, "required": []}},
                            "required": ["f"]}},
        },
        "required": ["b", "d", "e"],
    });
    assert_eq!(
        schema(text)["properties"]["p"].to_string(),
        expected.to_string()
    );
    let fields = vec![SignatureParameter::new("k", ValueType::Text)];
    let result = ValueType::array_of(ValueType::Object(Some(fields)));
    assert_eq!(signature(text).result.kind, result);
}

#[test]
fn defaults_become_json_of_their_type() {
    let default = |text: &str| match &signature(text).parameters[0].presence {
        SignaturePresence::Default(value) => value.clone(),
        other => panic!("{text}: {other:?}"),
    };
    let cases = [
        ("(x::Text {default: world})", json!("world")),
        ("(x::Text {default: date`2024-04-05`})", json!("2024-04-05")),
        ("(x::Int {default: 1.0})", json!(1.0)),
        ("(x::Int {default: -3, optional:true})", json!(-3)),
        ("(x::Double {default: 0.5})", json!(0.5)),
        ("(x::Double {default: 2})", json!(2)),
        ("(x::Bool {default: false})", json!(false)),
        (
            "(x::Array {default: [1, a, [true]]})",
            json!([1, "a", [true]]),
        ),
        (
            "(x::Array {elementType:\"Text\", default:[\"a\", \"b\"]})",
            json!(["a", "b"]),
        ),
        ("(x::Array {default: []})", json!([])),
        (
            "(x::Object {default: {a: {b: null}}})",
            json!({"a": {"b": null}}),
        ),
        (
            "(x::Object {fields:[{name:\"a\", type:\"Int\", minimum:1}], default:{a: 1, b: 2}})",
            json!({"a": 1, "b": 2}),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(default(&format!("{text}==>(::Text)")), expected, "{text}");
    }
}

#[test]
fn the_deepest_signature_needs_little_stack() {
    let work = || {
        // A field costs two levels, its map's and its array's.
        let open = "{name:x, type:Object, fields:[".repeat(48);
        let text = format!(
            "(a::Object {{fields:[{open}{}]}})==>(::Text)",
            "]}".repeat(48)
        );
        let signature = signature(&text);
        let print = signature.to_string();
        (
            parse_type_signature(&print) == Ok(signature),
            schema(&text).to_string().len(),
        )
    };
    let small = std::thread::Builder::new()
        .stack_size(1024 * 1024)
        .spawn(work);
    let (same, length) = small.unwrap().join().unwrap();
    assert!(same && length > 48 * 50);
}
