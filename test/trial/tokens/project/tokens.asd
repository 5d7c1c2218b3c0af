;;; SPDX-License-Identifier: GPL-3.0-or-later

(defsystem "tokens"
  :components ((:file "tokens"))
  :in-order-to ((test-op (test-op "tokens/test"))))

(defsystem "tokens/test"
  :depends-on ("tokens")
  :components ((:file "test"))
  :perform (test-op (operation component)
             (symbol-call :tokens-test :run)))
