"""Another party's router, heartbeat and monitor, which follow the same folder contract in their own way.

Nothing of AgentTalk is imported here. What the specification leaves open, this party fills in differently: details of
receipts are objects, a correlation names the parent command alone, what is missing is listed as objects, requests for
people have no title, signs of life no uptime. It leaves what it wrote in its outboxes, and reads there what others wrote.
"""
