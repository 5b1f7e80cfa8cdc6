" Indentation of Tessera programs.
"
" Inside brackets a line stands one level deeper than the line of the bracket,
" or under its first item; after a header one level deeper than the header;
" after return, break and the like one level less deep.  A line that already
" stands at the level of an enclosing block is left there: where a block ends
" cannot be told from the text.
if exists('b:did_indent')
  finish
endif
let b:did_indent = 1

setlocal autoindent nolisp
setlocal indentexpr=TesseraIndent(v:lnum)
setlocal indentkeys=!^F,o,O,<:>,0),0],0},=elif,=else,=except,=finally,=case
let b:undo_indent = 'setlocal autoindent< lisp< indentexpr< indentkeys<'

if exists('*TesseraIndent')
  finish
endif

" Comments and strings do not count.
let s:skip = 'synIDattr(synID(line("."), col("."), 1), "name") =~# "Comment\\|String\\|Todo\\|Escape"'

function! s:in_string(lnum) abort
  return synIDattr(synID(a:lnum, 1, 1), 'name') =~# 'String'
endfunction

" The line with the innermost bracket that is open at the start of lnum, and its column; [0, 0] when none is.
function! s:open_bracket(lnum) abort
  let save = getcurpos()
  call cursor(a:lnum, 1)
  let stop = max([1, a:lnum - 300])
  let best = [0, 0]
  for pair in [['(', ')'], ['\[', '\]'], ['{', '}']]
    let at = searchpairpos(pair[0], '', pair[1], 'bnW', s:skip, stop)
    if at[0] > best[0] || (at[0] == best[0] && at[1] > best[1])
      let best = at
    endif
  endfor
  call setpos('.', save)
  return best
endfunction

" The line where the statement that holds lnum begins.
function! s:statement(lnum) abort
  let at = a:lnum
  while at > 1
    let open = s:open_bracket(at)
    if open[0]
      let at = open[0]
    elseif s:in_string(at)
      let at = prevnonblank(at - 1)
    elseif getline(at - 1) =~# '\\$'
      let at -= 1
    else
      return at
    endif
  endwhile
  return at
endfunction

function! s:code(lnum) abort
  return substitute(getline(a:lnum), '\s*\(#[^''"]*\)\?$', '', '')
endfunction

" The indentation of the statement above that a branch word continues; -1 when there is none.
function! s:partner(lnum, words) abort
  let at = prevnonblank(a:lnum - 1)
  let below = indent(a:lnum) + 1
  let found = -1
  while at > 0
    let start = s:statement(at)
    if indent(start) < below && getline(start) =~# '^\s*\(async\s\+\)\?\(' . a:words . '\)\>'
      return indent(start)
    endif
    if indent(start) < below && found < 0 && indent(start) < indent(a:lnum)
      let below = indent(start) + 1
    endif
    let at = prevnonblank(start - 1)
  endwhile
  return found
endfunction

function! s:bracket_indent(lnum, open) abort
  let line = getline(a:open[0])
  if getline(a:lnum) =~# '^\s*[])}]'
    let rest = strpart(line, a:open[1])
    return rest =~# '^\s*\(#.*\)\?$' ? indent(a:open[0]) : a:open[1] - 1
  endif
  let rest = strpart(line, a:open[1])
  if rest =~# '^\s*\(#.*\)\?$'
    return indent(a:open[0]) + shiftwidth()
  endif
  return a:open[1] + len(matchstr(rest, '^\s*'))
endfunction

function! TesseraIndent(lnum) abort
  if s:in_string(a:lnum)
    return indent(a:lnum)
  endif
  let open = s:open_bracket(a:lnum)
  if open[0]
    return s:bracket_indent(a:lnum, open)
  endif
  let prev = prevnonblank(a:lnum - 1)
  while prev > 0 && getline(prev) =~# '^\s*#'
    let prev = prevnonblank(prev - 1)
  endwhile
  if prev == 0
    return 0
  endif
  if getline(a:lnum - 1) =~# '\\$'
    return getline(a:lnum - 2) =~# '\\$' ? indent(a:lnum - 1) : indent(a:lnum - 1) + shiftwidth()
  endif
  let start = s:statement(prev)
  let now = indent(a:lnum)
  let base = indent(start)
  for [word, partners] in [['elif\|else', 'if\|elif\|for\|while\|try\|except'], ['except\|finally', 'try\|except\|else'],
        \ ['case', 'case']]
    if getline(a:lnum) =~# '^\s*\(' . word . '\)\>.*:'
      let at = s:partner(a:lnum, partners)
      if at >= 0
        return at
      endif
    endif
  endfor
  if s:code(prev) =~# ':$'
    return base + shiftwidth()
  endif
  if getline(start) =~# '^\s*\(return\|raise\|pass\|break\|continue\)\>'
    return min([now, max([base - shiftwidth(), 0])])
  endif
  return getline(a:lnum) =~# '\S' && now < base && now % shiftwidth() == 0 ? now : base
endfunction
