// SPDX-License-Identifier: GPL-3.0-or-later
//! What would be sent, as its user may see it: the very body, and no key.

use crate::DIALECTS;
use crate::chat::{Chat, chat, turns};
use agent_q_core::protocol::{Event, Op, QuestionId, TurnOutcome};
use serde_json::{Value, json};

async fn shown(chat: &Chat, text: Option<&str>) -> Result<Value, String> {
    let question = QuestionId::next();
    chat.tell(Op::ShowRequest(question, text.map(Into::into)));
    chat.emacs
        .wait_for(|event| match event {
            Event::RequestShown {
                question: about,
                request,
            } if *about == question => Some(request.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn what_is_shown_is_what_is_sent() {
    const KEY: &str = "sk-planted-0123456789";
    const HEADER: &str = "planted-header-0123456789";
    let script = turns(json!([[{"text": "Hello."}], [{"text": "Again."}]]));
    for dialect in DIALECTS {
        let provider = json!({
            "name": "test", "model": "m",
            "dialect": dialect, "key": KEY, "headers": {"x-secret": HEADER},
        });
        let chat = chat(&script, json!({"provider": provider}));
        let first = shown(&chat, Some("hi")).await.unwrap();
        assert_eq!(chat.server.bodies().len(), 0, "nothing is sent");
        let text = first.to_string();
        assert!(!text.contains(KEY) && !text.contains(HEADER), "{text}");
        assert_eq!(first["headers"]["x-secret"], "[not shown]");
        assert_eq!(first["headers"]["content-type"], "application/json");

        assert_eq!(chat.say("hi").await, TurnOutcome::Finished, "{dialect}");
        assert_eq!(first["body"], chat.server.bodies()[0], "{dialect}");
        let second = shown(&chat, Some("again")).await.unwrap();
        chat.tell(Op::Submit("again".into()));
        chat.ended(2).await;
        assert_eq!(second["body"], chat.server.bodies()[1], "{dialect}");
        let plain = shown(&chat, None).await.unwrap();
        assert!(plain["body"].to_string().contains("again"));
    }
}

#[tokio::test]
async fn without_a_model_nothing_can_be_shown() {
    let chat = chat(&turns(json!([])), json!({"provider": null}));
    let problem = shown(&chat, Some("hi")).await.unwrap_err();
    assert!(problem.starts_with("No model is set up."), "{problem}");
}
