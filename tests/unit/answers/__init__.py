"""For each chapter, right and wrong answers to its exercises, as (name, answer) and (name, answer, words)."""
