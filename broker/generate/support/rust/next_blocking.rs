
impl<T, V> Iterator for ContractSubscription<T, V> {
    type Item = Result<Received<T, V>, Rejected>;

    fn next(&mut self) -> Option<Self::Item> {
        let message = self.subscription.next()?;
        Some(self.read(message))
    }
}
