;;; How files are written here  -*- no-byte-compile: t -*-
;; SPDX-License-Identifier: GPL-3.0-or-later

((nil . ((indent-tabs-mode . nil)
         (fill-column . 100)
         (sentence-end-double-space . t)))
 (makefile-mode . ((indent-tabs-mode . t)))
 (emacs-lisp-mode . ((emacs-lisp-docstring-fill-column . 79)))
 (rust-mode . ((rust-indent-offset . 4))))
