use super::*;
use crate::protocol::DiscoveredServer;
#[derive(Clone)]
pub struct Client;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct ClientError;
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct ProviderError {
    pub partial: Option<Box<Reply>>,
}
pub const LOCAL_SERVERS: &[u8] = &[];
impl Client {
    pub fn new() -> Result<Self, ClientError> {
        Ok(Client)
    }
    pub async fn stream_chat(
        &self,
        _: &ProviderSettings,
        _: &ChatRequest,
        _: &mut (dyn FnMut(StreamEvent) + Send),
    ) -> Result<Reply, ProviderError> {
        Err(ProviderError { partial: None })
    }
    pub async fn discover(&self, _: &[u8]) -> Vec<DiscoveredServer> {
        vec![]
    }
}
