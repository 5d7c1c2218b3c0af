// SPDX-License-Identifier: GPL-3.0-or-later
//! The sources that every Lisper reads: of systems that ASDF knows and of the Lisp itself. The chat's
//! image is asked where they are, each time, as any call may load another system.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::files::path::PathPolicy;
use crate::files::sources::source_folders;
use crate::image::{ImageReply, Plist, parse_reply};
use crate::protocol::{HostRequest, ImageRequest};
use crate::tool::work::{WorkContext, within};

/// How long the image may take to name them. Without them the user is asked.
const DEADLINE: Duration = Duration::from_secs(3);

/// The folders of such sources; none where no image says.
pub(super) async fn folders(policy: &Arc<PathPolicy>, context: &WorkContext) -> Vec<PathBuf> {
    let body = HostRequest::Image(ImageRequest {
        operation: "source-places".to_owned(),
        arguments: "nil".to_owned(),
        deadline: DEADLINE,
    });
    let request = context.host.request(context.session, body);
    let reply = within(DEADLINE * 2, request).await.ok();
    let Some(ImageReply::Returned(data)) = reply.and_then(|it| parse_reply(&it).ok()) else {
        return Vec::new();
    };
    let policy = Arc::clone(policy);
    let found = context.on_a_thread(move |_| {
        let data = Plist::new(&data);
        let (files, trees) = (data.texts("files"), data.texts("trees"));
        Ok(source_folders(&files, &trees, policy.home()))
    });
    found.await.unwrap_or_default()
}
