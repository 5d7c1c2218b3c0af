// SPDX-License-Identifier: GPL-3.0-or-later
//! Tool specifications, agents and libraries: the contract's examples, round trips, and binding.

use std::sync::Arc;

use agent_q_core::gram::{
    AgentSpecification, BindError, LibraryError, LibraryTool, ModelReference, SignaturePresence,
    SpecificationError, ToolLibrary, ToolSpecification, agent_from_gram,
};
use serde_json::{Value, json};

const DESCRIPTION: &str = "Returns a friendly greeting message for the given name";
const SIGNATURE: &str = r#"(::Text {paramName:"name"})==>(::String)"#;

/// The contract's gram block, as it stands there.
const CONTRACT_GRAM: &str = r#"[sayHello:ToolSpecification {
  description: "Returns a friendly greeting message for the given name"
} |
  (::Text {paramName:"name"})==>(::String)
]
"#;

fn say_hello() -> ToolSpecification {
    ToolSpecification::create("sayHello", DESCRIPTION, SIGNATURE).unwrap()
}

fn contract_json() -> Value {
    json!({
        "name": "sayHello",
        "description": DESCRIPTION,
        "typeSignature": SIGNATURE,
        "schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    })
}

#[test]
fn b11_the_contracts_block_is_the_contracts_json() {
    let read = ToolSpecification::from_gram(CONTRACT_GRAM).unwrap();
    assert_eq!(read, say_hello());
    assert_eq!(read.name(), "sayHello");
    assert_eq!(read.description(), DESCRIPTION);
    assert_eq!(read.type_signature(), SIGNATURE);
    assert_eq!(read.to_json().to_string(), contract_json().to_string());
    assert_eq!(read.to_gram(), CONTRACT_GRAM.trim_end());
}

#[test]
fn b12_names_and_descriptions_are_not_empty() {
    let create = ToolSpecification::create;
    assert_eq!(
        create("", "d", SIGNATURE),
        Err(SpecificationError::EmptyName)
    );
    assert_eq!(
        create("n", " ", SIGNATURE),
        Err(SpecificationError::EmptyDescription)
    );
    assert!(
        create("", "d", SIGNATURE)
            .unwrap_err()
            .to_string()
            .contains("empty")
    );
    assert!(create("n\0", "d", SIGNATURE).is_err());
    let error = create("n", "d", "(::Text").unwrap_err();
    assert!(
        matches!(&error, SpecificationError::Gram(gram) if gram.column == 8),
        "{error}"
    );
}

#[test]
fn c3_a_tool_without_parameters() {
    let tool = ToolSpecification::create("getTime", "Says the time", "()==>(::String)").unwrap();
    let expected = json!({"type": "object", "properties": {}, "required": []});
    assert_eq!(*tool.schema(), expected);
}

#[test]
fn round_trips_keep_everything() {
    let signatures = [
        SIGNATURE,
        "()==>(::String)",
        "(::String)",
        "( a :: Text {default : 'x // y'} )\n  ~~> // why\n (::Int)",
        "  (::Text)==>(::String)\n",
        "// first\n(::Text)==>(::String) // last",
        "(::Text {description: ```\nsome\nlines\n```})==>(::String)",
        "\u{feff}(::Text)==>(::String)",
    ];
    let names = [
        "sayHello",
        "say_hello",
        "say hello",
        "it`s \\ 1",
        "été",
        "42",
        "true",
        "//x",
    ];
    let descriptions = [
        "Says \"hello\" /* */ // to\nall\t\\ of\r\nyou",
        "//",
        " é \u{1} ' `",
    ];
    for type_signature in signatures {
        for name in names {
            for description in descriptions {
                let tool = ToolSpecification::create(name, description, type_signature).unwrap();
                let gram = tool.to_gram();
                assert_eq!(
                    ToolSpecification::from_gram(&gram),
                    Ok(tool.clone()),
                    "{gram}"
                );
                assert_eq!(
                    ToolSpecification::from_json(&tool.to_json()),
                    Ok(tool.clone())
                );
                assert_eq!(tool.type_signature(), type_signature);
            }
        }
    }
}

#[test]
fn the_schema_in_json_is_not_trusted() {
    let mut json = contract_json();
    json["schema"] = json!({"type": "object"});
    assert_eq!(ToolSpecification::from_json(&json), Ok(say_hello()));
    json.as_object_mut().unwrap().remove("typeSignature");
    let error = ToolSpecification::from_json(&json).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected an object with the string \"typeSignature\", found none"
    );
    json["typeSignature"] = json!(7);
    assert!(
        ToolSpecification::from_json(&json)
            .unwrap_err()
            .to_string()
            .ends_with("found 7")
    );
}

#[test]
fn what_is_no_tool_is_rejected_with_its_place() {
    let cases = [
        ("", "1:1 one tool"),
        ("(a)", "1:1 one tool"),
        (
            "[a:Tool {description:\"d\"} | (::Text)] [b]",
            "1:39 one tool",
        ),
        (
            "[a:Agent {description:\"d\"} | (::Text)]",
            "1:1 a tool, with the label",
        ),
        (
            "[:Tool {description:\"d\"} | (::Text)]",
            "1:1 a name as the pattern's identifier",
        ),
        (
            "[``:Tool {description:\"d\"} | (::Text)]",
            "1:2 a name as the pattern's identifier",
        ),
        ("[a:Tool | (::Text)]", "1:1 a tool with a `description`"),
        (
            "[a:Tool {description:\" \"} | (::Text)]",
            "1:22 a description; Tool description cannot be empty",
        ),
        (
            "[a:Tool {description:1} | (::Text)]",
            "1:22 `description` to be a string",
        ),
        (
            "[a:Tool {description:\"d\"}]",
            "1:26 `|` and a type signature",
        ),
        ("[a:Tool {description:\"d\"} | b]", "1:29 a type signature"),
        (
            "[a:Tool {description:\"d\"} | (::Text), (::Text)]",
            "1:39 exactly one type signature",
        ),
        (
            "[a:Tool {description:\"d\"} |\n (::Txt)]",
            "2:5 a type: Text",
        ),
        (
            "[a:Tool {description:\"d\", typeSignature:\"(::Int)\"} | (::Text)]",
            "1:41 `typeSignature` to hold the signature of the element",
        ),
    ];
    for (text, expected) in cases {
        let error = ToolSpecification::from_gram(text).expect_err(text);
        let place = format!("{}:{} {}", error.line, error.column, error.expected);
        assert!(place.starts_with(expected), "{text}: {place}");
    }
}

const AGENT: &str = r#"
// An agent that greets
[hello_world_agent:Agent {
  description: "Greets people",
  instruction: ```
  You are friendly.
  Use "sayHello".
  ```,
  model: "OpenAI/gpt-4o-mini"
} |
  [sayHello:Tool {description: "Says hello"} | (personName::String {default:"world"})==>(::String)],
  [getTime:ToolSpecification {description: "Says the time"} | ()==>(::String)]
]
"#;

#[test]
fn c1_an_agent_is_read_with_its_tools() {
    let agent = agent_from_gram(AGENT).unwrap();
    assert_eq!(agent.name, "hello_world_agent");
    assert_eq!(agent.description.as_deref(), Some("Greets people"));
    assert_eq!(
        agent.instruction,
        "  You are friendly.\n  Use \"sayHello\"."
    );
    let model = ModelReference {
        provider: "OpenAI".into(),
        id: "gpt-4o-mini".into(),
    };
    assert_eq!(agent.model, model);
    let names: Vec<&str> = agent.tools.iter().map(ToolSpecification::name).collect();
    assert_eq!(names, ["sayHello", "getTime"]);
    let tool = &agent.tools[0];
    assert_eq!(
        tool.type_signature(),
        "(personName::String {default:\"world\"})==>(::String)"
    );
    assert_eq!(
        tool.signature().parameters[0].presence,
        SignaturePresence::Default(json!("world"))
    );
    assert_eq!(
        tool.schema()["properties"]["personName"]["default"],
        json!("world")
    );
}

/// An agent with these properties and elements.
fn agent(record: &str, elements: &str) -> Result<AgentSpecification, String> {
    let text = format!("[a:Agent {{{record}}}{elements}]");
    agent_from_gram(&text).map_err(|error| error.to_string())
}

#[test]
fn the_model_is_split_on_its_first_slash() {
    let model = |text: &str| {
        agent(&format!("instruction: \"i\", model: \"{text}\""), "").map(|agent| {
            assert_eq!(agent.tools, [], "zero tools are allowed");
            (agent.model.provider, agent.model.id)
        })
    };
    let is = |provider: &str, id: &str| Ok((provider.to_owned(), id.to_owned()));
    assert_eq!(model("Anthropic/claude"), is("Anthropic", "claude"));
    assert_eq!(
        model("openrouter/meta/llama:8b"),
        is("openrouter", "meta/llama:8b")
    );
    assert_eq!(model("gpt-4o"), is("OpenAI", "gpt-4o"));
    for text in ["/x", "x/", "/"] {
        assert!(
            model(text).unwrap_err().contains("Provider/model"),
            "{text}"
        );
    }
}

#[test]
fn what_an_agent_lacks_is_said() {
    let tool = "[t:Tool {description:\"d\"} | (::Text)]";
    let whole = "instruction: \"i\", model: \"m\"";
    let error = |record: &str, elements: &str| agent(record, elements).unwrap_err();
    assert!(error("model: \"m\"", "").contains("an agent with the property `instruction`"));
    assert!(error("instruction: \"i\"", "").contains("an agent with the property `model`"));
    assert!(
        error("instruction: \"\", model: \"m\"", "").contains("Agent instruction cannot be empty")
    );
    assert!(error("instruction: \"i\", model: 1", "").contains("`model` to be a string"));
    assert!(error(whole, "| (::Text)").contains("a tool, `[name:Tool"));
    // C13: the second tool of a name, and where it stands
    let twice = error(whole, &format!("|\n {tool},\n {tool}"));
    assert!(
        twice.starts_with("line 3, column 2") && twice.contains("unique"),
        "{twice}"
    );
    // C14
    let nameless = agent_from_gram("[:Agent {instruction: \"i\", model: \"m\"}]").unwrap_err();
    assert!(nameless.to_string().contains("Agent name cannot be empty"));
    assert!(
        agent_from_gram("[a:Tool]")
            .unwrap_err()
            .expected
            .contains("label `Agent`")
    );
}

fn tool(description: &str, schema: Value, payload: u64) -> LibraryTool<u64> {
    LibraryTool::new("sayHello", description, schema, payload).unwrap()
}

#[test]
fn a_library_is_never_changed() {
    let empty = ToolLibrary::default();
    let one = empty.register("sayHello", tool("d", json!({}), 1)).unwrap();
    let two = one.register("sayHello", tool("d", json!({}), 2)).unwrap();
    let payload =
        |library: &ToolLibrary<u64>| library.lookup("sayHello").map(|tool| *tool.payload());
    assert_eq!(
        (payload(&empty), payload(&one), payload(&two)),
        (None, Some(1), Some(2))
    );
    assert_eq!(two.tools().count(), 1);
    assert_eq!(payload(&two.clone()), Some(2));
    assert!(two.lookup("sayhello").is_none());
}

#[test]
fn a_tool_is_registered_under_its_own_name() {
    let error = ToolLibrary::default()
        .register("hello", tool("d", json!({}), 1))
        .unwrap_err();
    let expected = LibraryError::OtherName {
        name: "hello".into(),
        tool: "sayHello".into(),
    };
    assert_eq!(error, expected);
}

#[test]
fn a_tool_has_a_name_a_description_and_a_schema() {
    let make = |name, description, schema| LibraryTool::new(name, description, schema, ());
    assert_eq!(make("", "d", json!({})), Err(LibraryError::EmptyName));
    assert_eq!(
        make("n", "", json!({})),
        Err(LibraryError::EmptyDescription)
    );
    let error = make("n", "d", json!([1])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The schema of the tool 'n' must be an object, not [1]"
    );
}

#[test]
fn c11_a_specification_is_bound_when_all_three_match() {
    let specification = say_hello();
    let schema =
        json!({"required": ["name"], "properties": {"name": {"type": "string"}}, "type": "object"});
    let hello = Arc::new(tool(DESCRIPTION, schema, 7));
    let library = ToolLibrary::default()
        .register("sayHello", Arc::clone(&hello))
        .unwrap();
    assert!(Arc::ptr_eq(&library.bind(&specification).unwrap(), &hello));
    assert_eq!(library.bind_all(&[specification]).unwrap().len(), 1);
}

#[test]
fn c16_what_is_not_in_the_library_is_named() {
    let library = ToolLibrary::default()
        .register("sayHello", tool("d", json!({}), 1))
        .unwrap();
    let other = ToolSpecification::create("say_hello", "d", "(::Text)").unwrap();
    let error = library.bind(&other).unwrap_err();
    let expected = "Tool 'say_hello' not found in library; did you mean 'sayHello'?";
    assert_eq!(error.to_string(), expected);
    let far = ToolSpecification::create("frobnicate", "d", "(::Text)").unwrap();
    let error = library.bind_all(&[far]).unwrap_err();
    assert_eq!(error.to_string(), "Tool 'frobnicate' not found in library");
}

#[test]
fn what_keeps_a_tool_from_being_bound_is_explained() {
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "integer"}, "loud": {"type": "boolean"}},
        "required": [],
    });
    let library = ToolLibrary::default()
        .register("sayHello", tool("Hi", schema, 1))
        .unwrap();
    let error = library.bind(&say_hello()).unwrap_err();
    let BindError::Differs { differences, .. } = &error else {
        panic!("{error}")
    };
    let places: Vec<&str> = differences.iter().map(|one| one.place.as_str()).collect();
    let expected = [
        "description",
        "schema.properties.name.type",
        "schema.properties.loud",
        "schema.required",
    ];
    assert_eq!(places, expected);
    let text = error.to_string();
    assert!(text.starts_with("Tool 'sayHello' in the library differs from its specification: "));
    assert!(text.contains(
        "schema.properties.name.type is \"string\" in the specification, \"integer\" in the tool"
    ));
    assert!(text.contains("schema.properties.loud is nothing in the specification"));
}

#[test]
fn the_order_of_what_is_required_matters() {
    let two = "(a::Text)==>(b::Text)==>(::Text)";
    let specification = ToolSpecification::create("sayHello", "d", two).unwrap();
    let mut schema = specification.schema().clone();
    schema["required"] = json!(["b", "a"]);
    let library = ToolLibrary::default()
        .register("sayHello", tool("d", schema, 1))
        .unwrap();
    let error = library.bind(&specification).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("schema.required is [\"a\",\"b\"]"),
        "{error}"
    );
}
