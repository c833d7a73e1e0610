"""Figure functions, one module a chapter: parameters in, a matplotlib ``Figure`` out.

Each figure function has a partner ``describe_…`` with the same parameters that says in one or two
sentences, with numbers, what the figure shows: its caption and its text for those who cannot see it.
"""
