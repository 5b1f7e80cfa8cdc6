" Options for Tessera programs.
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1

setlocal comments=b:#,fb:-
setlocal commentstring=#\ %s
setlocal expandtab shiftwidth=4 softtabstop=4 tabstop=8
setlocal formatoptions-=t formatoptions+=croql
setlocal suffixesadd=.tsr
setlocal include=^\\s*\\(from\\\|import\\)
setlocal define=^\\s*\\(async\\s\\+\\)\\?\\(def\\\|class\\)
setlocal foldmethod=indent foldlevel=99
setlocal makeprg=tessera\ check\ %
setlocal errorformat=%E%trror:\ %m,%W%tarning:\ %m,%C\ %#-->\ %f:%l:%c,%-G%.%#

let b:undo_ftplugin = 'setlocal comments< commentstring< expandtab< shiftwidth< softtabstop< tabstop< formatoptions<'
      \ . ' suffixesadd< include< define< foldmethod< foldlevel< makeprg< errorformat<'
