"""Commands about forges and the tasks that they call for."""
