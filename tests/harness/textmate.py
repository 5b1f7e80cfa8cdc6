"""A small TextMate engine: enough of the format to run editors/vscode/syntaxes/tessera.tmLanguage.json.

Rules are `match`, `begin`/`end` with `contentName`, captures, `include` of #name or $self.  At each place the rule that
matches first wins, the `end` of the innermost region before its patterns, as in VS Code.
"""
import json
import re


class Grammar:
    def __init__(self, path):
        self.data = json.loads(path.read_text())
        self.compiled = {}
        self.flat = {}

    def regex(self, pattern):
        if pattern not in self.compiled:
            self.compiled[pattern] = re.compile(pattern)
        return self.compiled[pattern]

    def rules(self, patterns):
        """The match and begin rules that a list of patterns stands for, in order."""
        key = id(patterns)
        if key not in self.flat:
            self.flat[key] = list(self.expand(patterns, set()))
        return self.flat[key]

    def expand(self, patterns, seen):
        for p in patterns:
            name = p.get("include")
            if name in seen:
                continue
            if name == "$self":
                yield from self.expand(self.data["patterns"], seen | {name})
            elif name:
                yield from self.expand([self.data["repository"][name[1:]]], seen | {name})
            elif "match" in p or "begin" in p:
                yield p
            else:
                yield from self.expand(p.get("patterns", []), seen)

    def scopes(self, text):
        """For each line of text, the scopes of each of its characters as one string."""
        stack, out = [], []
        for line in text.split("\n"):
            line += "\n"
            cells = [[] for _ in line]
            self.line(line, stack, cells)
            out.append([" ".join(c) for c in cells[:-1]])
        return out

    def line(self, line, stack, cells):
        pos, empty = 0, 0
        while pos <= len(line) - 1:
            rule, m, is_end = self.next(line, pos, stack)
            upto = m.start() if m else len(line)
            self.paint(cells, pos, upto, stack, True)
            if not m:
                return
            empty = empty + 1 if m.end() == m.start() else 0
            if empty > 20:
                raise ValueError(f"rules go round at column {pos + 1} of {line!r}")
            if is_end:
                self.paint(cells, m.start(), m.end(), stack, False)
                self.capture(cells, m, rule.get("endCaptures", rule.get("captures", {})))
                stack.pop()
            elif "begin" in rule:
                stack.append(rule)
                self.paint(cells, m.start(), m.end(), stack, False)
                self.capture(cells, m, rule.get("beginCaptures", rule.get("captures", {})))
            else:
                self.paint(cells, m.start(), m.end(), stack, True)
                for i in range(m.start(), m.end()):
                    cells[i].append(rule.get("name", ""))
                self.capture(cells, m, rule.get("captures", {}))
            pos = m.end()
            if m.end() == m.start() and not is_end and "begin" not in rule:
                pos += 1

    def next(self, line, pos, stack):
        best = (None, None, False)
        if stack:
            m = self.regex(stack[-1]["end"]).search(line, pos)
            best = (stack[-1], m, True) if m else best
        patterns = stack[-1].get("patterns", []) if stack else self.data["patterns"]
        for rule in self.rules(patterns):
            m = self.regex(rule.get("match") or rule["begin"]).search(line, pos)
            if m and (not best[1] or m.start() < best[1].start()):
                best = (rule, m, False)
        return best

    @staticmethod
    def paint(cells, lo, hi, stack, content):
        for i in range(lo, hi):
            for k, rule in enumerate(stack):
                cells[i].append(rule.get("name", ""))
                if content or k + 1 < len(stack):
                    cells[i].append(rule.get("contentName", ""))

    @staticmethod
    def capture(cells, m, captures):
        for group, c in captures.items():
            for i in range(*m.span(int(group))) if m.span(int(group))[0] >= 0 else ():
                cells[i].append(c.get("name", ""))
