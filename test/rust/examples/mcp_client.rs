// SPDX-License-Identifier: GPL-3.0-or-later
//! A client made with the official Rust SDK: `mcp-client BRIDGE`. It lists, calls, is refused, awaits and
//! cancels, and prints a line for each. Emacs denies whatever it is asked, and answers pending after a
//! short time.
#![allow(clippy::print_stdout, reason = "it is a program for a terminal")]

use std::error::Error;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ReadResourceRequestParams};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{ServiceExt, service::ServiceError};
use serde_json::{Value, json};
use tokio::process::Command;

type Client = RunningService<RoleClient, ()>;

fn text(result: &CallToolResult) -> String {
    let first = result.content.first().and_then(|content| content.as_text());
    first
        .map(|content| content.text.clone())
        .unwrap_or_default()
}

fn failed(result: &CallToolResult) -> bool {
    result.is_error == Some(true)
}

async fn call(
    client: &Client,
    tool: &'static str,
    arguments: Value,
) -> Result<CallToolResult, ServiceError> {
    let mut parameters = CallToolRequestParams::new(tool);
    parameters.arguments = arguments.as_object().cloned();
    client.call_tool(parameters).await
}

async fn eval(client: &Client, form: &str) -> Result<CallToolResult, ServiceError> {
    call(client, "eval_form", json!({"form": form})).await
}

/// What RESULT comes to in the end; a slow machine may call anything pending.
async fn finished(
    client: &Client,
    mut result: CallToolResult,
) -> Result<CallToolResult, Box<dyn Error>> {
    while text(&result).starts_with("pending") {
        let pending = text(&result);
        let (_, behind) = pending
            .split_once("call_id ")
            .ok_or("a pending call without an id")?;
        let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
        result = call(
            client,
            "await_call",
            json!({"call_id": digits.parse::<u64>()?}),
        )
        .await?;
    }
    Ok(result)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let bridge = std::env::args().nth(1).ok_or("which bridge?")?;
    let client: Client = ().serve(TokioChildProcess::new(Command::new(bridge))?).await?;

    let tools = client.list_all_tools().await?;
    let mut known: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    known.retain(|name| ["eval_form", "await_call"].contains(name));
    known.sort_unstable();
    println!("listed {known:?}");

    let three = finished(&client, eval(&client, "(+ 1 2)").await?).await?;
    println!(
        "called {} {}",
        text(&three).contains("=> 3"),
        failed(&three)
    );
    let bad = finished(&client, eval(&client, "(error \"No luck\")").await?).await?;
    println!(
        "signalled {} {}",
        text(&bad).contains("No luck"),
        failed(&bad)
    );
    let refused = eval(&client, "(open \"/nonexistent/x\" :direction :output)").await?;
    let refused = finished(&client, refused).await?;
    println!(
        "refused {} {}",
        text(&refused).contains("denied"),
        failed(&refused)
    );

    let slow = eval(&client, "(progn (sleep 2) :rested)").await?;
    println!("pending {}", text(&slow).starts_with("pending"));
    println!(
        "awaited {}",
        text(&finished(&client, slow).await?).contains(":RESTED")
    );

    let prompts = client.list_all_prompts().await?;
    let names: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    println!("prompts {names:?}");
    let resource = client
        .read_resource(ReadResourceRequestParams::new("agent-q://image"))
        .await?;
    println!(
        "resource {}",
        serde_json::to_string(&resource)?.contains("SBCL")
    );

    let never = eval(&client, "(progn (sleep 60) :never)");
    let _ = tokio::time::timeout(Duration::from_millis(300), never).await;
    println!("cancelled");
    client.list_all_tools().await?;
    client.cancel().await?;
    Ok(())
}
