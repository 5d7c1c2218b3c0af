// SPDX-License-Identifier: GPL-3.0-or-later
//! Signatures that are built in code: printing one and reading it gives the same signature, and the
//! reference grammar can read the print of all that don't nest.

use crate::reference::{reference_accepts, uses_extension};
use agent_q_core::gram::{
    SignatureParameter, SignaturePresence, SignatureResult, ToolSpecification, TypeSignature,
    ValueType, parse, parse_type_signature,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Number, Value, json};

#[test]
fn c5_a_signature_built_in_code_is_printed_as_the_contract_writes_it() {
    let mut name = SignatureParameter::new("personName", ValueType::Text);
    let print = |parameters: &[SignatureParameter]| {
        let result = ValueType::Text.into();
        TypeSignature {
            parameters: parameters.to_vec(),
            result,
        }
        .to_string()
    };
    assert_eq!(print(&[]), "()==>(::String)");
    let age = SignatureParameter::new("age", ValueType::Integer);
    let both = r#"(::Text {paramName:"personName"})==>(::Int {paramName:"age"})==>(::String)"#;
    assert_eq!(print(&[name.clone(), age]), both);
    name.presence = SignaturePresence::Default(json!("world"));
    let default = r#"(::Text {paramName:"personName", default:"world"})==>(::String)"#;
    assert_eq!(print(&[name]), default);
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/ ]{1,8}",
        "[^\\x00]{1,8}",
        Just("it's \"so\"\\\n`//`".to_owned())
    ]
}

fn name() -> impl Strategy<Value = String> {
    text().prop_filter("a name has letters", |name| !name.trim().is_empty())
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("finite", |number| number.is_finite()),
        Just(1e300),
        Just(-0.0),
        Just(5e-324),
        (-100i32..100).prop_map(f64::from),
    ]
}

/// A value of type KIND, from the raw material that proptest made.
fn value(kind: &ValueType, words: &[String], numbers: &[f64]) -> Value {
    let word = words.first().cloned().unwrap_or_default();
    let number = numbers.first().copied().unwrap_or_default();
    match kind {
        ValueType::Text => json!(word),
        ValueType::Integer => json!(number as i64),
        ValueType::Number => json!(number),
        ValueType::Boolean => json!(number > 0.0),
        ValueType::Object(None) => json!({word: [number, null, {"k": []}], "n": words.len()}),
        ValueType::Array(None) => json!([words, numbers, {}, true]),
        ValueType::Object(Some(fields)) => {
            let members = fields.iter().map(|field| match &field.presence {
                SignaturePresence::Default(default) => (field.name.clone(), default.clone()),
                _ => (field.name.clone(), value(&field.kind, words, numbers)),
            });
            Value::Object(members.collect())
        }
        ValueType::Array(Some(element)) => json!([value(element, words, numbers)]),
    }
}

/// Fields or parameters of KINDS; those of equal names are left out.
fn parameters(
    kinds: impl Strategy<Value = ValueType> + 'static,
    count: usize,
) -> BoxedStrategy<Vec<SignatureParameter>> {
    let parameter = (
        name(),
        kinds,
        0..4,
        option::of(text()),
        vec(text(), 0..3),
        vec(number(), 1..3),
    )
        .prop_map(|(name, kind, extra, description, words, numbers)| {
            let mut parameter = SignatureParameter::new(name, kind);
            parameter.description = description;
            let value = value(&parameter.kind, &words, &numbers);
            match extra {
                0 => {}
                1 => parameter.presence = SignaturePresence::Optional,
                2 => parameter.presence = SignaturePresence::Default(value),
                _ => parameter.choices = vec![value],
            }
            if matches!(parameter.kind, ValueType::Number) && extra < 2 {
                parameter.minimum = Number::from_f64(numbers[0]);
                parameter.maximum = Number::from_f64(numbers[0].abs());
            }
            parameter
        });
    vec(parameter, 0..count)
        .prop_map(|mut parameters| {
            let mut seen = std::collections::HashSet::new();
            parameters.retain(|parameter| seen.insert(parameter.name.clone()));
            parameters
        })
        .boxed()
}

fn kind() -> BoxedStrategy<ValueType> {
    let leaf = prop_oneof![
        Just(ValueType::Text),
        Just(ValueType::Integer),
        Just(ValueType::Number),
        Just(ValueType::Boolean),
        Just(ValueType::Object(None)),
        Just(ValueType::Array(None)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let fields = parameters(inner.clone(), 4).prop_map(|mut fields| {
            // Limits on a field would make the values that are made up for its object wrong.
            for field in &mut fields {
                field.choices.clear();
                (field.minimum, field.maximum) = (None, None);
            }
            ValueType::Object(Some(fields))
        });
        prop_oneof![fields, inner.prop_map(ValueType::array_of)]
    })
    .boxed()
}

fn signatures() -> impl Strategy<Value = TypeSignature> {
    let result =
        (kind(), option::of(name()), option::of(text())).prop_map(|(kind, name, description)| {
            SignatureResult {
                name,
                description,
                ..SignatureResult::from(kind)
            }
        });
    (parameters(kind(), 4), result)
        .prop_map(|(parameters, result)| TypeSignature { parameters, result })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reading_the_print_gives_the_signature(signature in signatures()) {
        let print = signature.to_string();
        let read = parse_type_signature(&print);
        prop_assert_eq!(read.as_ref(), Ok(&signature), "{}", print);
        prop_assert_eq!(read.unwrap().to_string(), print);
    }

    #[test]
    fn the_reference_reads_what_we_print(signature in signatures(), name in name(), text in name()) {
        let tool = ToolSpecification::create(&name, &text, &signature.to_string()).unwrap();
        let gram = tool.to_gram();
        let read = ToolSpecification::from_gram(&gram);
        prop_assert_eq!(read, Ok(tool), "{}", gram);
        if !uses_extension(&parse(&gram).unwrap()) {
            prop_assert!(reference_accepts(&gram), "{}", gram);
        }
    }
}
