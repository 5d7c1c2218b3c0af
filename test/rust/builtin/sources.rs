// SPDX-License-Identifier: GPL-3.0-or-later
//! What an image does not record is searched for in the project's Lisp files, and the answer says
//! so.

use crate::executor_bench::*;

const PROGRAM: &str = "(defun callee (x) x)\n(defun caller () (Callee 1) (callees))\n(defmethod (setf\n area) (new it) it)\n(defvar *level* 1)\n";

/// What TOOL answers when the image has replied VALUE, in a project with a program.
async fn answer(tool: &str, arguments: Value, value: &str) -> (CallOutcome, String) {
    let result = result(tool, arguments, value).await;
    (result.outcome, result.content)
}

async fn result(tool: &str, arguments: Value, value: &str) -> CallResult {
    let project = tempfile::TempDir::new().unwrap();
    std::fs::write(project.path().join("look.lisp"), PROGRAM).unwrap();
    std::fs::write(project.path().join("look.txt"), PROGRAM).unwrap();
    let bench = bench(Approval::None);
    for tool in agent_q_core::builtin::image::xref::tools() {
        bench.batch.tools.register(tool);
    }
    let root = json!({"project_root": project.path(), "private_files": null});
    bench.emacs.replies.lock().unwrap().extend([
        EmacsReply::done(format!("(:outcome :returned :value ({value}))")),
        EmacsReply::done(root.to_string()),
        // Emacs finds no whole definition; without an answer the call would wait for minutes.
        EmacsReply::Failed(EmacsError::TimedOut),
    ]);
    bench.run(&[call("1", tool, arguments)]).await.remove(0)
}

#[tokio::test]
async fn callers_that_are_not_recorded_are_searched_for() {
    let (outcome, content) = answer(
        "who_calls",
        json!({"function": "callee"}),
        r#":unavailable "who_calls is not available on ECL because it does not record what calls a function." :target "CALLEE" :search "callee""#,
    )
    .await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    assert!(content.starts_with("who_calls is not available on ECL because"));
    assert!(content.contains("a text search for callee"));
    assert!(content.ends_with(
        "look.lisp:1:(defun callee (x) x)\nlook.lisp:2:(defun caller () (Callee 1) (callees))"
    ));
}

#[tokio::test]
async fn what_a_search_can_not_find_is_not_searched_for() {
    let (outcome, content) = answer(
        "xref",
        json!({"kind": "callees", "name": "caller"}),
        r#":unavailable "xref callees is not available on ECL because it does not record what a function calls." :target "CALLER""#,
    )
    .await;
    assert_eq!(outcome, CallOutcome::Failed);
    assert!(content.starts_with("xref callees is not available on ECL because"));
    assert!(content.ends_with("find_definition shows the source."));
}

#[tokio::test]
async fn a_search_that_finds_nothing_says_so() {
    let (outcome, content) = answer(
        "who_references",
        json!({"variable": "*leve*"}),
        r#":unavailable "who_references is not available on ECL because it does not record what uses a variable." :target "*LEVE*" :search "*leve*""#,
    )
    .await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    assert!(content.ends_with("It found nothing."));
}

#[tokio::test]
async fn a_definition_without_a_place_is_searched_for() {
    let (outcome, content) = answer(
        "find_definition",
        json!({"symbol": "*level*"}),
        r#":name "*LEVEL*" :kinds ("variable") :total 0 :offset 0 :search "*level*""#,
    )
    .await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    assert!(content.starts_with("*LEVEL* is a variable, but the image does not know where"));
    assert!(content.ends_with("\nlook.lisp:5:(defvar *level* 1)"));
}

#[tokio::test]
async fn what_is_found_in_sources_is_said_to_be_of_the_project() {
    let callers = r#":unavailable "It is not available." :target "CALLEE" :search "callee""#;
    let found = result("who_calls", json!({"function": "callee"}), callers).await;
    assert_eq!(found.source.unwrap().to_string(), "the project");
    let definition = r#":name "*LEVEL*" :total 0 :offset 0 :search "*level*""#;
    let found = result("find_definition", json!({"symbol": "*level*"}), definition).await;
    assert_eq!(found.source.unwrap().to_string(), "the project");
    let users = r#":target "CALLEE" :kind "function" :total 0 :sites 0 :offset 0 :users ()"#;
    let recorded = result("who_calls", json!({"function": "callee"}), users).await;
    assert_eq!(recorded.source.unwrap().to_string(), "the image");
}

#[tokio::test]
async fn what_the_image_records_is_not_searched_for() {
    let (outcome, content) = answer(
        "who_calls",
        json!({"function": "callee"}),
        r#":target "CALLEE" :kind "function" :total 1 :sites 1 :offset 0 :users ((:what "CALLER" :count 1))"#,
    )
    .await;
    assert_eq!(outcome, CallOutcome::Succeeded);
    assert_eq!(
        content,
        "CALLEE is called by (1):\nwithout a file\n  CALLER\nTop-level forms and macro templates are not recorded; a text search finds them."
    );
}

#[tokio::test]
async fn a_name_without_a_recorded_use_is_searched_for() {
    let unused =
        r#":target "TWICE" :kind "macro" :total 0 :sites 0 :offset 0 :users () :search "caller""#;
    for (tool, arguments, none) in [
        (
            "who_calls",
            json!({"function": "twice"}),
            "No code that expands the macro TWICE is recorded. Top-level forms,",
        ),
        (
            "xref",
            json!({"kind": "callers", "name": "twice"}),
            "TWICE is called by nothing recorded. Top-level forms,",
        ),
    ] {
        let (outcome, content) = answer(tool, arguments, unused).await;
        assert_eq!(outcome, CallOutcome::Succeeded);
        assert!(content.starts_with(none), "{content}");
        assert!(
            content.contains("a text search for caller in the project's Lisp files"),
            "{content}"
        );
        assert!(
            content.ends_with("\nlook.lisp:2:(defun caller () (Callee 1) (callees))"),
            "{content}"
        );
    }
    let elsewhere =
        r#":target "CAR" :kind "function" :total 0 :sites 0 :offset 0 :users () :search nil"#;
    let (_, content) = answer("who_calls", json!({"function": "car"}), elsewhere).await;
    assert!(!content.contains("text search"), "{content}");
}
