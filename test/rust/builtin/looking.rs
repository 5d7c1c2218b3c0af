// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools that look into the Lisp image, as a model reads their answers.

use agent_q_core::builtin::image::{clos, inspection, introspection, xref};
use agent_q_core::image::parse_reply;
use agent_q_core::tool::Tool;
use agent_q_core::trust::SafetyLevel;
use serde_json::{Value, json};

use crate::image_tools::{arguments, image, sent, tool};

fn tools() -> Vec<Tool> {
    [
        xref::tools(),
        clos::tools(),
        introspection::package_tools(),
        inspection::tools(),
    ]
    .concat()
}

/// What the tool NAME makes of DATA, the operation's value.
fn rendered(name: &str, given: Value, data: &str) -> String {
    let tool = tool(name);
    let reply = parse_reply(&format!("(:outcome :returned :value ({data}))")).unwrap();
    (image(&tool).render)(&arguments(&tool, given), &reply).unwrap()
}

#[test]
fn looking_is_safe_and_has_its_categories() {
    for (name, categories) in [
        ("who_calls", vec!["introspection", "xref"]),
        ("who_references", vec!["introspection", "xref"]),
        ("xref", vec!["introspection", "xref"]),
        ("find_definition", vec!["introspection", "xref"]),
        ("class_slots", vec!["introspection", "clos"]),
        ("class_hierarchy", vec!["introspection", "clos"]),
        ("method_specializers", vec!["introspection", "clos"]),
        ("list_package_symbols", vec!["introspection", "packages"]),
        ("package_info", vec!["introspection", "packages"]),
        ("inspect_value", vec!["introspection"]),
        ("disassemble_function", vec!["introspection"]),
        ("image_status", vec!["introspection"]),
    ] {
        let tool = tool(name);
        assert_eq!(tool.level, SafetyLevel::Safe, "{name}");
        assert_eq!(tool.categories, categories, "{name}");
    }
    assert_eq!(tools().len(), 12);
}

#[test]
fn arguments_keep_their_names() {
    for (name, given, expected) in [
        (
            "xref",
            json!({"kind": "sets", "name": "*x*", "limit": 3, "offset": 6}),
            "(:kind \"sets\" :name \"*x*\" :limit 3 :offset 6)",
        ),
        (
            "method_specializers",
            json!({"generic_function": "area", "package": "shapes"}),
            "(:generic-function \"area\" :package \"shapes\")",
        ),
        (
            "list_package_symbols",
            json!({"package": "cl", "include_internal": true}),
            "(:package \"cl\" :include-internal t)",
        ),
        (
            "inspect_value",
            json!({"handle": "v1", "depth": 2}),
            "(:handle \"v1\" :depth 2)",
        ),
        ("image_status", json!({}), "nil"),
        (
            "image_status",
            json!({"part": "systems", "offset": 100}),
            "(:part \"systems\" :offset 100)",
        ),
        (
            "class_slots",
            json!({"class": "c", "full": true}),
            "(:class \"c\" :full t)",
        ),
    ] {
        assert_eq!(sent(name, given), expected);
    }
}

#[test]
fn an_offset_beyond_the_end_is_told() {
    assert_eq!(
        rendered(
            "list_package_symbols",
            json!({"package": "p", "offset": 300}),
            ":package \"P\" :external 15 :internal 32 :total 15 :offset 300 :symbols nil"
        ),
        "P: 15 external and 32 internal symbols\nOffset past the end: only 15 results."
    );
}

#[test]
fn callers_come_once_and_by_file() {
    assert_eq!(
        rendered(
            "who_calls",
            json!({"function": "callee"}),
            ":target \"CALLEE\" :total 9 :sites 11 :offset 0 :kind \"function\" :users ((:what \"EVD\" :count 1 :ways nil :location nil) (:what \"CALLER\" :count 2 :where \"/a/x.lisp:8\") (:what \"OTHER\" :count 1 :where \"C:/b.lisp\") (:what \"USER\" :count 1 :where \"/a/x.lisp:10\"))"
        ),
        "CALLEE is called by (9, 11 places):
/a/x.lisp
  8: CALLER ×2
  10: USER
C:/b.lisp
  OTHER
without a file
  EVD
5 more: call again with offset 4.
Top-level forms and macro templates are not recorded; a text search finds them."
    );
}

#[test]
fn a_search_that_was_stopped_says_so() {
    let stopped = |total: u8, users: &str| {
        let reply = format!(
            ":target \"CAR\" :total {total} :sites {total} :offset 0 :cut :stopped :kind \"function\" :users {users}"
        );
        rendered("who_calls", json!({"function": "car"}), &reply)
    };
    let word = "The search was stopped after 1 s, so there may be more.";
    assert_eq!(stopped(0, "nil"), word);
    let some = stopped(1, "((:what \"USER\" :count 1 :where \"/x.lisp:3\"))");
    assert!(some.contains("USER") && some.contains(word), "{some}");
}

#[test]
fn uses_of_a_variable_say_how() {
    assert_eq!(
        rendered(
            "who_references",
            json!({"variable": "*v*"}),
            ":target \"*V*\" :total 1 :sites 3 :offset 0 :kind \"variable\" :users ((:what \"USER\" :count 3 :ways (\"reads\" \"sets\" \"binds\") :where \"/x.lisp:3\"))"
        ),
        "*V* is used by (1, 3 places):\n/x.lisp\n  3: USER ×3 reads, sets, binds\nTop-level forms and macro templates are not recorded; a text search finds them."
    );
}

#[test]
fn what_a_name_uses_is_all_there() {
    for (kind, head) in [("callees", "F calls"), ("methods", "F has these methods")] {
        assert_eq!(
            rendered(
                "xref",
                json!({"kind": kind, "name": "f"}),
                &format!(
                    ":target \"F\" :total 1 :sites 1 :offset 0 :kind \"{kind}\" :users ((:what \"G\" :count 1))"
                )
            ),
            format!("{head} (1):\nwithout a file\n  G")
        );
    }
}

#[test]
fn nothing_found_says_why_that_may_be() {
    for (name, given, kind, expected) in [
        (
            "who_calls",
            json!({"function": "f"}),
            "function",
            "No callers of F are recorded. Calls in top-level forms and macro templates",
        ),
        (
            "who_calls",
            json!({"function": "f"}),
            "macro",
            "No code that expands the macro F is recorded. Top-level forms, macro templates",
        ),
        (
            "who_calls",
            json!({"function": "f"}),
            "undefined",
            "F is not defined as a function",
        ),
        (
            "who_references",
            json!({"variable": "f"}),
            "constant",
            "it is a constant",
        ),
        (
            "who_references",
            json!({"variable": "f"}),
            "no variable",
            "not a global variable",
        ),
        (
            "who_references",
            json!({"variable": "f"}),
            "variable",
            "No uses of F are recorded.",
        ),
        (
            "xref",
            json!({"kind": "sets", "name": "f"}),
            "sets",
            "F is set by nothing recorded.",
        ),
        (
            "xref",
            json!({"kind": "callees", "name": "f"}),
            "callees",
            "F calls nothing",
        ),
    ] {
        let text = rendered(
            name,
            given,
            &format!(":target \"F\" :total 0 :sites 0 :offset 0 :users nil :kind \"{kind}\""),
        );
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.lines().count(), 1);
    }
}

#[test]
fn definitions_come_with_their_source() {
    assert_eq!(
        rendered(
            "find_definition",
            json!({"symbol": "f"}),
            ":name \"F\" :kinds (\"function\") :total 2 :offset 0 :unplaced nil :evaluated nil :definitions ((:what \"(DEFUN F)\" :where \"/x.lisp:6\" :text \"(defun f ()\n  1)\") (:what \"(DEFMACRO F)\" :where \"/y.lisp\" :missing t :text nil))"
        ),
        "(DEFUN F) /x.lisp:6\n(defun f ()\n  1)\n(DEFMACRO F) /y.lisp (this file can't be read here)"
    );
    assert_eq!(
        rendered(
            "find_definition",
            json!({"symbol": "f"}),
            ":name \"F\" :kinds (\"function\") :total 0 :offset 0 :definitions nil :unplaced (\"(DEFUN F)\") :evaluated \"(DEFUN F () 1)\""
        ),
        "F was evaluated, not loaded from a file. The image has it as:\n(DEFUN F () 1)"
    );
    assert!(
        rendered(
            "find_definition",
            json!({"symbol": "f"}),
            ":name \"F\" :kinds (\"function\") :total 0 :offset 0 :definitions nil :unplaced nil :evaluated nil"
        )
        .contains("does not know where")
    );
    assert!(
        rendered(
            "find_definition",
            json!({"symbol": "f"}),
            ":name \"F\" :kinds nil :total 0 :offset 0 :definitions nil :unplaced nil :evaluated nil"
        )
        .contains("only a symbol")
    );
}

#[test]
fn sources_have_a_budget() {
    let long = "x".repeat(8000);
    let text = rendered(
        "find_definition",
        json!({"symbol": "f"}),
        &format!(
            ":name \"F\" :total 2 :offset 0 :definitions ((:what \"A\" :where \"/x:1\" :text \"{long}\") (:what \"B\" :where \"/x:2\" :text \"{long}y\"))"
        ),
    );
    assert!(text.len() < 9000);
    assert!(text.ends_with("B /x:2\n  (to see it, ask for this kind only, or read the file)"));
}

#[test]
fn slots_are_a_line_each() {
    assert_eq!(
        rendered(
            "class_slots",
            json!({"class": "sub"}),
            ":class \"SUB\" :kind \"class\" :metaclass nil :undefined nil :default-initargs (\":A 5\") :slots ((:name \"A\" :initargs (\":A\") :initform \"NIL\" :readers nil :writers nil :accessors (\"SH-A\") :type nil :allocation nil :documentation \"The a.\" :from \"SH\") (:name \"B\" :readers (\"B\") :type \"INTEGER\" :allocation \"class\") (:name \"C\"))"
        ),
        "SUB (class): 3 slots
A: initarg :A, initform NIL, accessor SH-A, from SH
  The a.
B: type INTEGER, reader B, allocation class
C
default initargs: :A 5"
    );
    assert_eq!(
        rendered(
            "class_slots",
            json!({"class": "sub"}),
            ":class \"SUB\" :kind \"class\" :slots ((:name \"A\" :documentation \"One.\" :more t))"
        ),
        "SUB (class): 1 slot\nA\n  One.\n(Some documentation is cut: full shows all of it.)"
    );
    assert!(
        rendered(
            "class_slots",
            json!({"class": "sub"}),
            ":class \"SUB\" :kind \"class\" :undefined (\"NOWHERE\") :slots nil"
        )
        .contains("superclass NOWHERE is not defined")
    );
}

#[test]
fn a_hierarchy_is_indented() {
    assert_eq!(
        rendered(
            "class_hierarchy",
            json!({"class": "sh"}),
            ":class \"SH\" :kind \"class\" :superclasses (\"STANDARD-OBJECT\") :precedence (\"SH\" \"T\") :direct-subclasses 1 :subclasses ((1 \"SUB\") (2 \"SUBSUB\")) :subclass-count 5 :methods 4"
        ),
        "SH (class); direct superclasses: STANDARD-OBJECT
precedence: SH, T
1 direct subclass, 5 with theirs:
  SUB
    SUBSUB
3 more: raise the limit, or ask about one of these.
4 methods specialized on it: xref with kind methods."
    );
}

#[test]
fn methods_have_qualifiers_and_classes() {
    assert_eq!(
        rendered(
            "method_specializers",
            json!({"generic_function": "ar"}),
            ":name \"AR\" :arglist \"(X)\" :combination nil :total 3 :offset 0 :methods ((:qualifiers nil :specializers (\"SH\" \"T\")) (:qualifiers (\":BEFORE\") :specializers (\"(EQL 3)\" \"T\")))"
        ),
        "AR (X): 3 methods\n(SH T)\n:BEFORE ((EQL 3) T)\n1 more: call again with offset 2."
    );
}

#[test]
fn symbols_are_grouped_by_what_they_are() {
    assert_eq!(
        rendered(
            "list_package_symbols",
            json!({"package": "p", "include_internal": true}),
            ":package \"P\" :external 1 :internal 5 :total 6 :offset 0 :symbols ((:name \"A\" :kinds (\"function\") :internal nil) (:name \"B\" :kinds (\"function\" \"class\") :internal t) (:name \"C\" :kinds (\"function\") :internal t) (:name \"D\" :kinds nil :internal t) (:name \"E\" :kinds (\"function\") :internal t))"
        ),
        "P: 1 external and 5 internal symbols
function: A
internal, function and class: B
internal, function: C E
internal, only names: D
1 more: call again with offset 5."
    );
    assert_eq!(
        rendered(
            "list_package_symbols",
            json!({"package": "p"}),
            ":package \"P\" :external 0 :internal 5 :total 0 :offset 0 :symbols nil"
        ),
        "P: 0 external and 5 internal symbols\nNothing is exported; include_internal lists the rest."
    );
}

#[test]
fn a_package_in_a_few_lines() {
    assert_eq!(
        rendered(
            "package_info",
            json!({"package": "p"}),
            ":package \"P\" :nicknames (\"N\") :local-nicknames (\"A = B\") :uses (\"COMMON-LISP\") :used-by nil :shadows nil :external 41 :internal 2 :exports (\"X\") :lock \"locked\" :documentation \"Doc.\""
        ),
        "P: 41 external and 2 internal symbols, locked
Doc.
nicknames: N
local nicknames: A = B
uses: COMMON-LISP
exports: X
40 more exports: call_tool list_package_symbols lists them."
    );
}

#[test]
fn an_object_shows_its_parts_and_their_handles() {
    assert_eq!(
        rendered(
            "inspect_value",
            json!({"handle": "v1"}),
            ":handle \"v1\" :text \"#<P>\" :facts (\"Instance of P\") :total 3 :offset 0 :parts ((:label \"X\" :text \"#<Q>\" :handle \"v2\" :parts ((:label \"Y\" :text \"1\" :handle nil))) (:label \"Z\" :remark \"unbound\"))"
        ),
        "v1: #<P>\nInstance of P\nX: #<Q> [v2]\n  Y: 1\nZ: (unbound)\n1 more: call again with offset 2."
    );
}

#[test]
fn code_loses_its_comment_signs() {
    assert_eq!(
        rendered(
            "disassemble_function",
            json!({"function": "f"}),
            ":name \"F\" :kind \"function\" :total 37 :offset 0 :lines (\"; disassembly for F\" \"; AB0: MOV RAX, [R13+16]   ; thread\")"
        ),
        "F (function), 37 lines:\ndisassembly for F\nAB0: MOV RAX, [R13+16]   ; thread\n35 more: call again with offset 2."
    );
    assert_eq!(
        rendered(
            "disassemble_function",
            json!({"function": "area"}),
            ":name \"AREA\" :kind \"generic function\" :total 3 :offset 0 :methods (\"(SHAPE)\" \":BEFORE ((EQL 3))\")"
        ),
        "AREA is a generic function; the code is in its methods. Ask for one, as in \"AREA (SHAPE)\":\n(SHAPE)\n:BEFORE ((EQL 3))\n1 more: call again with offset 2."
    );
}

#[test]
fn the_image_in_a_few_lines() {
    assert_eq!(
        rendered(
            "image_status",
            json!({}),
            ":implementation \"SBCL 2\" :machine \"Linux\" :client \"SLY\" :directory \"/d/\" :memory \"73 MB of 1024 MB\" :threads (\"main thread\" \"worker ×2\") :packages 97 :own-packages (\"P\") :library-packages 3 :system-count 2 :systems (\"a (+1)\") :features (\"unix\" \"20 more\") :running (\"eval-form for 3 s\")"
        ),
        "SBCL 2 on Linux, through SLY
directory: /d/
memory: 73 MB of 1024 MB
2 systems: a (+1)
97 packages, 3 of libraries; the user's own: P
threads: main thread, worker ×2
features: unix, 20 more
running calls of agent-q: eval-form for 3 s
(Use part to list all systems, packages, features or threads.)"
    );
    assert_eq!(
        rendered(
            "image_status",
            json!({"part": "systems"}),
            ":part \"systems\" :total 9 :offset 4 :items (\"a\" \"a/b\")"
        ),
        "9 systems: a, a/b\n3 more: call again with offset 6."
    );
}
