// SPDX-License-Identifier: GPL-3.0-or-later
//! The tools of the Lisp image as a model meets them: what its arguments become on the way out,
//! and what it gets to read.

use std::time::Duration;

use crate::image_tools::{arguments, image, sent, tool};
use agent_q_core::builtin::image::introspection;
use agent_q_core::image::parse_reply;
use agent_q_core::tool::Treatment;
use agent_q_core::trust::SafetyLevel;
use serde_json::{Value, json};

fn rendered(name: &str, given: Value, reply: &str) -> Result<String, String> {
    let tool = tool(name);
    let reply = parse_reply(reply).unwrap();
    (image(&tool).render)(&arguments(&tool, given), &reply).map_err(|failure| failure.message)
}

#[test]
fn arguments_become_a_property_list() {
    assert_eq!(
        sent(
            "describe_symbol",
            json!({"symbol": "|Foo|", "package": "cl-user"})
        ),
        "(:symbol \"|Foo|\" :package \"cl-user\")"
    );
    assert_eq!(
        sent(
            "apropos_search",
            json!({"pattern": "x", "external_only": true, "kind": "macro", "limit": 5})
        ),
        "(:pattern \"x\" :external-only t :kind \"macro\" :limit 5)"
    );
    assert_eq!(
        sent("function_arglist", json!({"function": "car"})),
        "(:function \"car\")"
    );
    assert_eq!(
        sent(
            "macroexpand_form",
            json!({"form": "(when t 1)", "full": false, "mode": "all"})
        ),
        "(:form \"(when t 1)\" :mode \"all\")"
    );
    assert_eq!(
        sent("eval_form", json!({"form": "(+ 1 2)", "timeout": 5})),
        "(:form \"(+ 1 2)\")"
    );
}

#[test]
fn code_is_assessed_in_the_image_and_looking_is_safe() {
    let eval = tool("eval_form");
    assert_eq!(eval.level, SafetyLevel::Cautious);
    let code = eval.code.unwrap();
    assert_eq!(code.parameters, ["form", "restart"]);
    assert_eq!(code.treatment, Treatment::RunInSteps);
    let expand = tool("macroexpand_form").code.unwrap();
    assert_eq!(expand.treatment, Treatment::Expand);
    for tool in introspection::tools() {
        assert_eq!(tool.level, SafetyLevel::Safe, "{}", tool.name);
    }
}

#[test]
fn the_timeout_is_in_seconds_and_has_bounds() {
    let eval = tool("eval_form");
    let deadline =
        |given| (image(&eval).deadline)(&arguments(&eval, given), Duration::from_secs(30));
    assert_eq!(deadline(json!({"form": "1"})), Duration::from_secs(30));
    assert_eq!(
        deadline(json!({"form": "1", "timeout": 0.5})),
        Duration::from_millis(500)
    );
    assert_eq!(
        deadline(json!({"form": "1", "timeout": -1})),
        Duration::from_secs(30)
    );
    assert_eq!(
        deadline(json!({"form": "1", "timeout": 1e300})),
        Duration::from_secs(3600)
    );
}

#[test]
fn one_value_is_one_line() {
    assert_eq!(
        rendered(
            "eval_form",
            json!({"form": "(+ 1 2)"}),
            "(:outcome :returned :value (:forms ((:form \"(+ 1 2)\" :values (\"3\"))) :current nil :package \"COMMON-LISP-USER\" :output \"\"))"
        ),
        Ok("=> 3".to_owned())
    );
}

#[test]
fn values_output_and_package_are_kept_apart() {
    assert_eq!(
        rendered(
            "eval_form",
            json!({"form": "..."}),
            "(:outcome :returned :value (:forms ((:form \"(in-package :pp)\" :values (\"#<PACKAGE \\\"PP\\\">\")) (:form \"(values)\" :values nil) (:form \"(values 1 2)\" :values (\"1\" \"2\"))) :package \"PP\" :output \"\nhello\n\"))"
        ),
        Ok("(in-package :pp)\n=> #<PACKAGE \"PP\">\n(values)\n=> no values\n(values 1 2)\n=> 1\n=> 2\nOutput:\nhello\n(Ended in package PP; the next call needs package \"PP\" again.)".to_owned())
    );
}

#[test]
fn an_error_keeps_what_was_done_before_it() {
    assert_eq!(
        rendered(
            "eval_form",
            json!({"form": "..."}),
            "(:outcome :error :type \"DIVISION-BY-ZERO\" :message \"arithmetic error\" :restarts ((\"CONTINUE\" \"go on\")) :frames (\"(G 0)\" \"(F 1)\" \"(F 1)\" \"(F 1)\") :output \"seen\n\" :value (:forms ((:form \"(defun g (x))\" :values (\"G\"))) :current \"(g 0)\" :package \"COMMON-LISP-USER\"))"
        ),
        Err("Error DIVISION-BY-ZERO: arithmetic error\nin form 2: (g 0)\nThe forms before it were evaluated:\n(defun g (x))\n=> G\nRestarts: CONTINUE (go on)\nBacktrace, innermost first:\n  (G 0)\n  (F 1) (×3)\nOutput:\nseen".to_owned())
    );
}

#[test]
fn frames_have_their_places() {
    assert_eq!(
        rendered(
            "eval_form",
            json!({"form": "(f 1)"}),
            "(:outcome :error :type \"ERROR\" :message \"no\" :frames (\"(CAR 1)\" (:text \"(G 1)\" :where \"/src/a.lisp:9\" :changed nil) (:text \"(F 1)\" :where \"/src/b.lisp:2\" :changed t) (:text \"(E 1)\" :where nil)))"
        ),
        Err("Error ERROR: no\nBacktrace, innermost first:\n  (CAR 1)\n  (G 1)  [/src/a.lisp:9]\n  (F 1)  [/src/b.lisp:2, changed since it was compiled]\n  (E 1)".to_owned())
    );
}

#[test]
fn a_runaway_recursion_takes_two_lines() {
    let frames: String = (0..20).map(|it| format!("\"(F -{it})\" ")).collect();
    assert_eq!(
        rendered(
            "eval_form",
            json!({"form": "(g)"}),
            &format!(
                "(:outcome :error :type \"STORAGE-CONDITION\" :message \"full\" :frames ({frames}\"((LAMBDA (A)) 1)\" \"((LAMBDA (B)) 1)\" \"((LAMBDA (C)) 1)\" \"((LAMBDA (D)) 1)\" \"(G 1)\" \"(G 2)\"))"
            )
        ),
        Err("Error STORAGE-CONDITION: full\nBacktrace, innermost first:\n  (F -0)\n  and 19 more recursive calls\n  ((LAMBDA (A)) 1)\n  ((LAMBDA (B)) 1)\n  ((LAMBDA (C)) 1)\n  ((LAMBDA (D)) 1)\n  (G 1)\n  (G 2)".to_owned())
    );
}

#[test]
fn a_stopped_call_says_how_far_it_came() {
    assert_eq!(
        rendered(
            "eval_form",
            json!({"form": "(loop)"}),
            "(:outcome :cancelled :because \"timed out after 30 s\" :output \"1\n2\" :value (:forms nil :current \"(loop)\" :package \"COMMON-LISP-USER\"))"
        ),
        Err("Stopped before finishing: timed out after 30 s.\nin (loop)\nOutput:\n1\n2".to_owned())
    );
}

#[test]
fn a_symbol_is_told_facet_by_facet() {
    assert_eq!(
        rendered(
            "describe_symbol",
            json!({"symbol": "thing"}),
            "(:outcome :returned :value (:name \"APP::THING\" :package \"APP\" :status :internal :facets ((:kind \"function\" :arglist \"(X)\" :type \"(FUNCTION (T) T)\" :methods nil :compiler-macro t :documentation \"Do it.\n  Well.\") (:kind \"variable\" :value \"42\" :type \"(INTEGER 0)\" :value-class nil :documentation nil) (:kind \"class\" :superclasses (\"STANDARD-OBJECT\") :slots (\"APP::A\" \"APP::B\") :documentation nil) (:kind \"variable\" :unbound t)) :definitions ((:what \"(DEFUN THING)\" :where \"/src/app.lisp:12\") (:more 3))))"
        ),
        Ok("APP::THING (internal in APP)\nfunction: (X)\n  type: (FUNCTION (T) T)\n  also: a compiler macro\n  Do it.\n  Well.\nvariable: 42\n  type: (INTEGER 0)\nclass: of STANDARD-OBJECT\n  slots: APP::A, APP::B\nvariable: unbound\nDefined:\n  (DEFUN THING) /src/app.lisp:12\n  and 3 more".to_owned())
    );
    assert_eq!(
        rendered(
            "describe_symbol",
            json!({"symbol": "foo"}),
            "(:outcome :returned :value (:name \"FOO\" :package \"COMMON-LISP-USER\" :status :internal :facets nil :elsewhere (\"PP::FOO\") :definitions nil))"
        ),
        Ok("FOO (internal in COMMON-LISP-USER)\nIt is only a symbol: it names no function, variable, class or type.\nSame name elsewhere: PP::FOO".to_owned())
    );
}

#[test]
fn a_miss_is_the_image_s_own_sentence() {
    assert_eq!(
        rendered(
            "describe_symbol",
            json!({"symbol": "mapcr"}),
            "(:outcome :missed :message \"Symbol MAPCR not found in package COMMON-LISP-USER. Near names: MAPCAR.\")"
        ),
        Err("Symbol MAPCR not found in package COMMON-LISP-USER. Near names: MAPCAR.".to_owned())
    );
}

#[test]
fn a_search_says_how_many_there_are() {
    let given = || json!({"pattern": "pars"});
    assert_eq!(
        rendered("apropos_search", given(), "(:outcome :returned :value (:pattern \"pars\" :package nil :total 3 :symbols ((:name \"PARSE-ERROR\" :kinds (\"condition\") :documentation nil) (:name \"PARSE-INTEGER\" :kinds (\"function\") :documentation \"Examine\"))))"),
        Ok("Found 3 symbols like \"pars\":\nPARSE-ERROR [condition]\nPARSE-INTEGER [function] Examine\n1 more: narrow the pattern, name a package or kind, or raise the limit.".to_owned())
    );
    assert_eq!(
        rendered(
            "apropos_search",
            given(),
            "(:outcome :returned :value (:pattern \"pars\" :package \"CL\" :total 0 :symbols nil))"
        ),
        Ok("Found 0 symbols like \"pars\" in CL. Try a shorter part of the name.".to_owned())
    );
}

#[test]
fn an_arglist_starts_with_the_name() {
    let given = || json!({"function": "push"});
    assert_eq!(
        rendered(
            "function_arglist",
            given(),
            "(:outcome :returned :value (:name \"PUSH\" :kind \"macro\" :arglist \"(OBJ PLACE)\" :setf nil))"
        ),
        Ok("PUSH (OBJ PLACE) [macro]".to_owned())
    );
    assert_eq!(
        rendered(
            "function_arglist",
            given(),
            "(:outcome :returned :value (:name \"CAR\" :kind \"function\" :arglist \"(LIST)\" :setf t))"
        ),
        Ok("CAR (LIST)\nThere is also (SETF CAR).".to_owned())
    );
}

#[test]
fn an_expansion_shows_both_forms() {
    let given = || json!({"form": "(when t 1)"});
    assert_eq!(
        rendered(
            "macroexpand_form",
            given(),
            "(:outcome :returned :value (:mode \"once\" :original \"(WHEN T 1)\" :expansion \"(IF T 1)\" :expanded t :rest t :output \"\"))"
        ),
        Ok("Expanded (once):\n(IF T 1)\nOnly the first form of the text was expanded.".to_owned())
    );
    assert_eq!(
        rendered(
            "macroexpand_form",
            given(),
            "(:outcome :returned :value (:mode \"once\" :original \"(CAR X)\" :expansion \"(CAR X)\" :expanded nil :rest nil :output \"\"))"
        ),
        Ok("Its operator is not a macro. Mode all expands the forms inside it.".to_owned())
    );
}
