" Colours for Tessera programs.
"
" Words after a dot are plain: there every keyword is a name.  Soft keywords
" (match case type on where) are coloured only where a line's beginning and end
" show that they are meant as such.
if exists('b:current_syntax')
  finish
endif

syntax case match

" ---- words ----
syntax keyword tesseraStatement     return pass break continue del global nonlocal assert with as lambda yield
syntax keyword tesseraStatement     def class nextgroup=tesseraFunction skipwhite
syntax keyword tesseraAsync         async await
syntax keyword tesseraConditional   if elif else
syntax keyword tesseraRepeat        for while
syntax keyword tesseraOperator      and or not in is
syntax keyword tesseraException     try except finally raise
syntax keyword tesseraInclude       import from
syntax keyword tesseraConstant      None True False
syntax match   tesseraFunction      '\h\w*' contained
syntax match   tesseraConditional   '^\s*\zsmatch\ze\s\+[^=:.,)].*:\s*\(#.*\)\?$'
syntax match   tesseraConditional   '^\s*\zscase\ze\s\+[^=:.,)].*:'
syntax match   tesseraStatement     '^\s*\zson\ze\s\+[[:alnum:]_"'(].*:'
syntax match   tesseraStatement     '^\s*\zstype\ze\s\+\h\w*\s*[=[]'
syntax match   tesseraStatement     '^\s*\%(async\s\+\)\?def\>.*)\@1<=.*\zs\<where\>\ze\s\+[^:=]'
syntax keyword tesseraSelf          self cls
syntax keyword tesseraDtype         int4 int8 int16 int32 int64 uint4 uint8 uint16 uint32 uint64 fp4 fp6 fp8 fp8_e4m3
syntax keyword tesseraDtype         fp8_e5m2 f16 bf16 tf32 f32 f64 c64 c128
syntax keyword tesseraType          bool int float str bytes list dict set tuple object Tensor Tile Tile2D Tile3D KTile
syntax keyword tesseraType          Region KVCache Module Parameter Policy Mesh Any Callable List Dict Tuple Set Optional Maybe
syntax match   tesseraAttribute     '\.\s*\h\w*' contains=NONE
syntax match   tesseraDecorator     '^\s*@\s*\h\w*\(\.\h\w*\)*'
syntax match   tesseraDecorator     '\(^\s*@.*\s\)\@<=@\h\w*\(\.\h\w*\)*'

" ---- numbers ----
syntax match   tesseraNumber        '\<0[xX]\(_\=\x\)\+\>'
syntax match   tesseraNumber        '\<0[oO]\(_\=\o\)\+\>'
syntax match   tesseraNumber        '\<0[bB]\(_\=[01]\)\+\>'
syntax match   tesseraNumber        '\<\d\(_\=\d\)*\([eE][+-]\=\d\(_\=\d\)*\)\=[jJ]\=\>'
syntax match   tesseraNumber        '\<\d\(_\=\d\)*\.\(\d\(_\=\d\)*\)\=\([eE][+-]\=\d\(_\=\d\)*\)\=[jJ]\='
syntax match   tesseraNumber        '\%(\w\|\.\)\@1<!\.\d\(_\=\d\)*\([eE][+-]\=\d\(_\=\d\)*\)\=[jJ]\='

" ---- strings ----
syntax match   tesseraEscape        +\\\([\\'"abfnrtv\n]\|\o\{1,3}\|x\x\{2}\|u\x\{4}\|U\x\{8}\)+ contained
syntax match   tesseraEscape        +{{\|}}+ contained
syntax region  tesseraString        start=+[bBuU]\=\z(['"]\)+ skip=+\\.+ end=+\z1\|$+ contains=tesseraPlainEscape
syntax region  tesseraString        start=+\<\([rR][bB]\=\|[bB][rR]\)\z(['"]\)+ skip=+\\.+ end=+\z1\|$+
syntax region  tesseraFString       start=+\<\([fF][rR]\=\|[rR][fF]\)\z(['"]\)+ skip=+\\.+ end=+\z1\|$+ contains=tesseraEscape,tesseraHole
" (of two that begin at one place the later wins: triple quotes come last)
syntax region  tesseraString        start=+[bBuU]\=\z('''\|"""\)+ skip=+\\.+ end=+\z1+ contains=tesseraPlainEscape
syntax region  tesseraString        start=+\<\([rR][bB]\=\|[bB][rR]\)\z('''\|"""\)+ skip=+\\.+ end=+\z1+
syntax region  tesseraFString       start=+\<\([fF][rR]\=\|[rR][fF]\)\z('''\|"""\)+ skip=+\\.+ end=+\z1+ contains=tesseraEscape,tesseraHole
syntax region  tesseraHole          matchgroup=tesseraBrace start=+{\@1<!{{\@!+ end=+}+ contained
      \ contains=ALLBUT,tesseraFunction,tesseraEscape,tesseraPlainEscape,tesseraTodo
syntax region  tesseraSpec          start=+:+ end=+\ze}+ contained contains=tesseraHole
syntax match   tesseraPlainEscape   +\\\([\\'"abfnrtv\n]\|\o\{1,3}\|x\x\{2}\|u\x\{4}\|U\x\{8}\)+ contained

" ---- comments ----
syntax keyword tesseraTodo          TODO NOTE contained
syntax match   tesseraComment       '#.*$' contains=tesseraTodo,@Spell

syntax sync minlines=200

highlight default link tesseraStatement   Statement
highlight default link tesseraAsync       Statement
highlight default link tesseraConditional Conditional
highlight default link tesseraRepeat      Repeat
highlight default link tesseraOperator    Operator
highlight default link tesseraException   Exception
highlight default link tesseraInclude     Include
highlight default link tesseraConstant    Constant
highlight default link tesseraFunction    Function
highlight default link tesseraSelf        Identifier
highlight default link tesseraDtype       Type
highlight default link tesseraType        Type
highlight default link tesseraDecorator   PreProc
highlight default link tesseraNumber      Number
highlight default link tesseraString      String
highlight default link tesseraFString     String
highlight default link tesseraBrace       Special
highlight default link tesseraSpec        Special
highlight default link tesseraEscape      Special
highlight default link tesseraPlainEscape Special
highlight default link tesseraComment     Comment
highlight default link tesseraTodo        Todo

let b:current_syntax = 'tessera'
