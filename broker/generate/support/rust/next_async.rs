
impl<T, V> ContractSubscription<T, V> {
    /// The next message; `None` when there will be no more. The message before it is acknowledged,
    /// unless that is done manually. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Received<T, V>, Rejected>> {
        let message = self.subscription.next().await?;
        Some(self.read(message))
    }
}
