;;; SPDX-License-Identifier: GPL-3.0-or-later

(defsystem "pipes"
  :components ((:file "pipes")
               (:file "report" :depends-on ("pipes")))
  :in-order-to ((test-op (test-op "pipes/test"))))

(defsystem "pipes/test"
  :depends-on ("pipes")
  :components ((:file "test"))
  :perform (test-op (operation component)
             (symbol-call :pipes-test :run)))
