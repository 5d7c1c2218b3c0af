// SPDX-License-Identifier: GPL-3.0-or-later
//! Connections that the HTTP client keeps between requests, and that die meanwhile.

use std::sync::{Arc, Barrier};

use agent_q_core::provider::{Dialect, FailureKind};
use futures_util::future::join_all;
use serde_json::json;

use crate::fault_server::{Deed, FaultServer};

use super::http::{ask_with, client, request, retries, settings, start, stream};
use super::network::signed;

/// As after the machine slept, or the server restarted.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_that_is_dead_costs_one_silent_request() {
    let answer = json!({"steps": [{"text": "ok"}]});
    let hang_up = json!({"hang_up": true});
    let server =
        start(json!({"turns": [hang_up, answer, hang_up, answer, hang_up, hang_up, answer]}));
    let (client, settings) = (client(), settings(server.base_url()));
    // Nothing was kept before the first answer; later the first failure is silent, a second is not.
    for shown in [1, 0, 1] {
        let mut events = Vec::new();
        let reply = stream(&client, &settings, &request(), &mut |event| {
            events.push(event);
        })
        .await;
        assert_eq!(reply.expect("a reply").text(), "ok");
        assert_eq!(retries(&events), shown);
    }
}

/// What a server does that leaves a connection open, and closes it once it is used again.
fn then_dead(answer: &str) -> Vec<Deed> {
    vec![Deed::Send(answer.into()), Deed::Read]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_dies_between_retries_is_none_of_them() {
    let refusal = then_dead("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n");
    let server = FaultServer::start(vec![refusal]);
    let (result, events) = ask_with(&settings(format!("http://{}/v1", server.address))).await;
    let error = result.expect_err("a failure");
    assert_eq!(error.kind, FailureKind::Refused(503));
    assert_eq!((server.requests().len(), retries(&events)), (3, 2));
}

/// The request without signatures may meet the connection of the one with them.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_dies_behind_a_refused_signature_is_no_retry() {
    let refusal = json!({"error": {"message": "Invalid `signature`"}}).to_string();
    let said = json!({"type": "message", "role": "assistant", "stop_reason": "end_turn",
                      "content": [{"type": "text", "text": "ok"}]});
    let answers = [("400 No", refusal), ("200 OK", said.to_string())].map(|(status, body)| {
        let length = body.len();
        then_dead(&format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    });
    let server = FaultServer::start(answers.to_vec());
    let mut settings = settings(format!("http://{}/v1", server.address));
    settings.dialect = Dialect::Messages;
    let request = signed(Dialect::Messages, &settings);
    let mut events = Vec::new();
    let reply = stream(&client(), &settings, &request, &mut |event| {
        events.push(event);
    })
    .await;
    assert_eq!(reply.expect("a reply").text(), "ok");
    assert_eq!(retries(&events), 0);
}

/// All that was kept has died while the machine slept.
#[tokio::test(flavor = "multi_thread")]
async fn several_dead_connections_cost_one_silent_request() {
    let said = json!({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]});
    let said = said.to_string();
    let length = said.len();
    let answer = then_dead(&format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{said}"
    ));
    let all_at_once = Deed::Meet(Arc::new(Barrier::new(4)));
    let at_once = [vec![all_at_once], answer.clone()].concat();
    let mut answers = vec![at_once; 4];
    answers.push(answer);
    let server = FaultServer::start(answers);
    let (client, settings) = (client(), settings(format!("http://{}/v1", server.address)));
    let request = request();
    let first = (0..4).map(|_| async {
        let reply = stream(&client, &settings, &request, &mut |_| {}).await;
        assert_eq!(reply.expect("a reply").text(), "ok");
    });
    join_all(first).await;
    let mut events = Vec::new();
    let reply = stream(&client, &settings, &request, &mut |event| {
        events.push(event);
    })
    .await;
    assert_eq!(reply.expect("a reply").text(), "ok");
    assert_eq!((server.requests().len(), retries(&events)), (5, 0));
}
