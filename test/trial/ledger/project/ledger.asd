;;; SPDX-License-Identifier: GPL-3.0-or-later

(defsystem "ledger"
  :components ((:file "ledger"))
  :in-order-to ((test-op (test-op "ledger/test"))))

(defsystem "ledger/test"
  :depends-on ("ledger")
  :components ((:file "test"))
  :perform (test-op (operation component)
             (symbol-call :ledger-test :run)))
