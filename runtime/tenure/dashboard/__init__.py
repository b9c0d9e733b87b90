"""rq-dashboard over our tickets. Needs the `dashboard` extra, so only its own command imports this package.

rq-dashboard shows RQ's side: queues, slots and tickets, which are titled by recipe, capability and attempt.
What an execution is and why it waits is said by `tenure show` and `tenure explain`.
"""
