;;; agent-q-image-test.el --- Calls into real Lisp images  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; The call layer on a real SBCL, the same tests through SLIME and through SLY.

;;; Code:

(require 'ert)
(require 'agent-q-test-image)

(declare-function sly--events-buffer "ext:sly")
(declare-function slime-events-buffer "ext:slime")

(agent-q-test-image-on-each strange-characters-pass ()
  "Text with any character goes there and back, or is replaced; the connection lives."
  (should (equal '("\"λ→🦀 \\\\ \\\" ? ;\"")
                 (agent-q-test-image-values connection "\"λ→🦀 \\\\ \\\" ? ;\"")))
  (should (equal '("7") (agent-q-test-image-values
                         connection "(length \"a\\\\b\nc\\\"d\")")))
  (should (equal '("\"a?b␀␛c\"")
                 (agent-q-test-image-values
                  connection "(coerce (list #\\a (code-char #xd800) #\\b (code-char 0)
                                            (code-char 27) #\\c) 'string)")))
  ;; Many of one are counted.
  (should (equal '("\"a␀[×40]b␀␀\"")
                 (agent-q-test-image-values
                  connection "(format nil \"a~ab~a\" (make-string 40 :initial-element (code-char 0))
                               (make-string 2 :initial-element (code-char 0)))")))
  ;; Raw bytes, a surrogate and a NUL on the way there.
  (should (equal '("3") (agent-q-test-image-values
                         connection (concat "(length \"" (string #x3fff80 #xd800 0) "\")"))))
  (should (equal '("2") (agent-q-test-image-values connection "(1+ 1)"))))

;;;; Long replies

(agent-q-test-image-on-each long-replies-are-not-delayed ()
  "What the connection sends leaves at once, and the connection outlives collections."
  (agent-q-test-image-values connection "(progn (sb-ext:gc :full t) (sb-ext:gc :full t))")
  (should (equal '("T")
                 (agent-q-test-image-values
                  connection
                  "(let ((socket (allocate-instance (find-class 'sb-bsd-sockets:inet-socket)))
        (client (if (eq agent-q-image::*client* :slynk) \"SLYNK\" \"SWANK\")))
    (setf (slot-value socket 'sb-bsd-sockets::file-descriptor)
          (sb-sys:fd-stream-fd
           (funcall (or (find-symbol \"CONNECTION-SOCKET-IO\" client)
                        (find-symbol \"CONNECTION.SOCKET-IO\" client))
                    (symbol-value (find-symbol \"*EMACS-CONNECTION*\" client)))))
    (sb-bsd-sockets:sockopt-tcp-nodelay socket))"))))

;;;; Stopping

(agent-q-test-image-on-each cancels-a-call ()
  "A call that is cancelled ends alone; others go on."
  (let ((other (agent-q-test-image-start connection "(progn (sleep 0.4) :other)"))
        (loops (agent-q-test-image-start connection "(loop)")))
    (agent-q-test-image-await
     (lambda () (equal '("2") (agent-q-test-image-values
                               connection "(1- (count \"eval-form\" agent-q-image::*running* :key #'fourth :test #'equal))")))
     10)
    (agent-q-image-cancel (car loops))
    (agent-q-image-cancel (car loops))
    (agent-q-image-cancel 'nobody)
    (let ((end (agent-q-test-image-end loops)))
      (should (equal "done" (car end)))
      (should (eq :cancelled (plist-get (cdr end) :outcome)))
      (should (string-match-p "\\`cancelled after [0-9.]+ s\\'" (plist-get (cdr end) :because))))
    (should (eq :returned (plist-get (cdr (agent-q-test-image-end other)) :outcome)))))

(agent-q-test-image-on-each runs-calls-side-by-side ()
  "Eight calls wait together, not one after the other, each with its own output."
  (agent-q-test-image-values connection "(defparameter *aq-here* (list 0))")
  ;; Each waits for all eight to be there, so one after the other would not end.
  (let ((calls (cl-loop for i below 8
                        collect (agent-q-test-image-start
                                 connection
                                 (format "(progn (sb-ext:atomic-incf (car *aq-here*))
                                            (loop until (>= (car *aq-here*) 8)
                                                  do (sleep 0.01))
                                            (princ %d) nil)"
                                         i)))))
    (cl-loop for call in calls
             for i from 0
             for end = (agent-q-test-image-end call)
             do (should (equal (number-to-string i)
                               (plist-get (plist-get (cdr end) :value) :output))))))

;;;; The connection

(agent-q-test-image-on-each ships-once-for-concurrent-calls ()
  "Calls made at once on a fresh image make one shipment; a lost package is sent again."
  (agent-q-test-image-values connection "(delete-package :agent-q-image)")
  (let* ((calls (cl-loop repeat 4 collect (agent-q-test-image-start connection "(+ 1 2)"))))
    (dolist (call calls)
      (should (eq :returned (plist-get (cdr (agent-q-test-image-end call)) :outcome)))))
  (let ((version (agent-q-test-image-values connection "(cdar agent-q-image::*versions*)")))
    (should (string-match-p "\\`\"[0-9a-f]\\{40\\}\"\\'" (car version)))))

(agent-q-test-image-on-each costs-the-client-no-look-at-all-symbols ()
  "Our package does not make the client tell again how all macros are indented."
  (let* ((function (if (eq 'sly (agent-q-connection-client connection))
                       'sly-handle-indentation-update
                     'slime-handle-indentation-update))
         (updates nil)
         (note (lambda (update) (push (mapcar #'car update) updates))))
    (cl-labels ((define (name)
                  ;; The client looks through the package of its user's own calls alone.
                  (agent-q-test-image-as-user
                   connection
                   `(cl:null (cl:eval (cl:read-from-string
                                       ,(format "(defmacro %s (it &body body) it body)" name))))
                   #'ignore)
                  ;; Updates come in the order in which there was a reason for them.
                  (agent-q-test-image-await
                   (lambda () (cl-find-if (lambda (names) (member name names)) updates)))))
      (advice-add function :before note)
      (unwind-protect
          (progn
            (should (define "aq-indented-before"))
            (agent-q-test-image-values connection "(delete-package :agent-q-image)")
            (setq updates nil)
            (agent-q-test-image-values connection "(+ 1 2)")
            (should (define "aq-indented-after"))
            ;; All macros together are hundreds.
            (should (< (apply #'max (mapcar #'length updates)) 50)))
        (advice-remove function note)))))

(agent-q-test-image-on-each costs-the-client-no-look-at-the-users-symbols ()
  "The package that the client looks through after a call of ours is a small one."
  (let ((server (substring (symbol-name (agent-q-connection-client-get connection :wire)) 1)))
    (cl-flet ((directly (text)
                (agent-q-test-image-directly connection (string-replace "server" server text))))
      (directly "(progn (defvar cl-user::*aq-looks* nil)
                        (defun cl-user::aq-look () (push server::*buffer-package* cl-user::*aq-looks*))
                        (push 'cl-user::aq-look server::*pre-reply-hook*))")
      (unwind-protect
          (progn
            (directly "(setf cl-user::*aq-looks* nil)")
            ;; In the call itself it is the user's, for a debugger that they may be shown.
            (should (equal '("#<PACKAGE \"COMMON-LISP-USER\">")
                           (agent-q-test-image-values
                            connection (concat server "::*buffer-package*"))))
            (should (equal "T" (directly "(and cl-user::*aq-looks*
                                                (every (lambda (package)
                                                         (loop for it being each symbol of package
                                                               count it into count
                                                               finally (return (< count 100))))
                                                       (butlast cl-user::*aq-looks*)))"))))
        (directly "(setf server::*pre-reply-hook*
                         (remove 'cl-user::aq-look server::*pre-reply-hook*))")))))

(agent-q-test-image-on-each sends-modules-when-they-are-needed ()
  "A module comes with the first call that needs it, and what has just come works as later."
  (agent-q-test-image-values connection "(delete-package :agent-q-image)")
  (cl-flet ((modules ()
              (let ((names (car (agent-q-test-image-values
                                 connection "(mapcar #'car agent-q-image::*versions*)"))))
                (sort (car (read-from-string names)) #'string<))))
    (let ((reply (agent-q-test-image-eval
                  connection "(defun aq-early (x) (declare (optimize (debug 2)))
                                (list (error \"Early ~A\" x)))
                              (aq-early 1)")))
      (should (equal '("(AQ-EARLY 1)") (plist-get reply :frames))))
    (should (equal '("asking" "assess" "assess-calls" "assess-danger" "assess-walk" "base" "consent"
                     "danger" "effects" "execution" "expansion" "foreign" "handles" "journal" "made"
                     "meeting" "names" "programs" "reading" "report" "watch")
                   (modules)))
    (agent-q-test-image-value connection "describe-symbol" :symbol "car")
    (should (member "introspection" (modules))))
  ;; Whatever evaluates them at first, in the end they are compiled.
  (should (agent-q-test-image-await
           (lambda () (equal '("NIL") (agent-q-test-image-values
                                       connection "(agent-q-image::interpreted-names)"))))))

;;;; The client's event log

(defun agent-q-image-test--log (connection)
  "Return what the client of CONNECTION has logged."
  (with-current-buffer
      (if (eq 'sly (agent-q-connection-client connection))
          (sly--events-buffer (agent-q-connection-process connection))
        (slime-events-buffer))
    (buffer-string)))

(agent-q-test-image-on-each logs-the-users-messages-alone ()
  "The client's log has what the user's calls are answered, and not what ours are."
  (cl-flet ((unlogged-p (mark)
              (agent-q-test-image-values connection (format "%S" mark))
              ;; This one comes in several pieces, and with characters of several bytes.
              (should (= 6 (length (agent-q-test-image-values
                                    connection
                                    (format "(values-list
                                               (loop repeat 6
                                                     collect (format nil \"%s ~V,,,'λA\" 3000 1)))"
                                            mark)))))
              (not (string-match-p mark (agent-q-image-test--log connection)))))
    ;; A reply that comes together with a message of the client's is logged with it.
    (should (cl-some #'unlogged-p '("aq-ours-a" "aq-ours-b" "aq-ours-c"))))
  (let (answer)
    (agent-q-connection-ask connection :rex '(cl:string-downcase "AQ-THEIRS") t
                        (lambda (result) (setq answer result)))
    (agent-q-test-image-await (lambda () answer)))
  (should (string-match-p ":ok \"aq-theirs\"" (agent-q-image-test--log connection))))

(ert-deftest agent-q-image-log-tells-our-replies ()
  "Only a reply of ours that is whole, with nothing before or after it, stays unlogged."
  (let* ((buffer (generate-new-buffer " *aq-wire*" t))
         (process (make-pipe-process :name "aq-wire" :buffer buffer :noquery t))
         (reply "(:return (:ok \"(:outcome :returned)\") 7)\n")
         (wire (format "%06X%s" (length reply) reply))
         (other "00000c(:ping 1 2)\n"))
    (cl-flet ((reply-p (there new)
                (with-current-buffer buffer
                  (erase-buffer)
                  (insert there))
                (agent-q-connection--log-reply-p process new)))
      (unwind-protect
          (progn
            (dotimes (cut (length wire))
              (should (reply-p (substring wire 0 cut) (substring wire cut)))
              (should-not (reply-p "" (substring wire 0 cut)))
              (should-not (reply-p (substring wire 0 cut) (concat (substring wire cut) other)))
              (should-not (reply-p other (substring wire cut))))
            (should-not (reply-p "" other)))
        (delete-process process)
        (kill-buffer buffer)))))

(ert-deftest agent-q-image-modules-are-small ()
  "No module is too long to be sent at once, and no operation is in two."
  (let ((operations nil))
    (dolist (module (agent-q-image-module--modules))
      (should (< (string-bytes (agent-q-image-module--module-source module)) 42000))
      (setq operations (append (agent-q-image-module--module-operations module) operations)))
    (should (member "describe-symbol" operations))
    (should (equal operations (delete-dups (copy-sequence operations))))))

(agent-q-test-image-on-each a-bug-of-ours-opens-no-debugger ()
  "An error in the Common Lisp half itself ends the call and shows nothing."
  (unwind-protect
      (progn
        (agent-q-test-image-values
         connection "(setf (symbol-function 'aq-kept) #'agent-q-image::reply-text)")
        (agent-q-test-image-eval
         connection "(defun agent-q-image::reply-text (reply)
                       (if (search \"trip\" (prin1-to-string reply))
                           (error \"A bug\")
                           (aq-kept reply)))")
        (let ((end (agent-q-test-image-call connection "eval-form" '(:form "\"trip\""))))
          (should (equal "aborted" (car end)))
          (should (string-match-p "A bug" (cdr end)))))
    (agent-q-test-image-values
     connection "(setf (symbol-function 'agent-q-image::reply-text) #'aq-kept)"))
  (should (equal '("3") (agent-q-test-image-values connection "(+ 1 2)"))))

(agent-q-test-image-on-each a-report-that-fails-ends-the-call ()
  "An error while an error is reported is told beside it: there is no debugger to go to."
  (unwind-protect
      (progn
        (agent-q-test-image-values
         connection "(setf (symbol-function 'aq-kept) #'agent-q-image::condition-report)")
        (agent-q-test-image-eval
         connection "(defun agent-q-image::condition-report (condition)
                       (declare (ignore condition))
                       (error \"No report today\"))")
        (let ((reply (agent-q-test-image-eval connection "(error \"The program's\")")))
          (should (equal '(:error "SIMPLE-ERROR" "No report could be made of it because of this \
error: SIMPLE-ERROR: No report today")
                         (mapcar (lambda (key) (plist-get reply key)) '(:outcome :type :message))))))
    (agent-q-test-image-directly
     connection "(setf (symbol-function 'agent-q-image::condition-report) #'aq-kept)"))
  (let ((reply (agent-q-test-image-eval connection "(error \"The program's\")")))
    (should (equal "The program's" (plist-get reply :message)))))

(agent-q-test-image-on-each leaves-the-user-alone ()
  "Nothing of ours is in the user's packages or output, and their client works."
  (let ((buffer (agent-q-connection-ask connection :buffer)))
    (agent-q-test-image-eval connection "(princ \"aq-secret\") (warn \"aq-secret\")")
    (should (equal '("NIL" "NIL")
                   (agent-q-test-image-values connection "(find-symbol \"GUARDED\" :cl-user)")))
    (with-current-buffer buffer
      ;; Names of files can have ours in lower case.
      (let ((case-fold-search nil))
        (should-not (string-match-p "aq-secret\\|AQ-SECRET\\|AGENT-Q" (buffer-string))))))
  (let (answer)
    (agent-q-connection-ask connection :rex '(cl:+ 40 2) t (lambda (result) (setq answer result)))
    (agent-q-test-image-await (lambda () answer))
    (should (equal '(:ok 42) answer)))
  (should (string-match-p "\\`SBCL [0-9.]+.* through SL.*\\(;.*\\)?\\'"
                          (agent-q-connection-facts connection)))
  (should (member connection (agent-q-connection-connections)))
  (should (stringp (agent-q-connection-name connection))))

(agent-q-test-image-on-each refuses-what-can-not-be-sent ()
  "Arguments that no image can read, or that can't be read here, end the call at once."
  (dolist (arguments '((:form [1 2]) (:form foo) (:form 1.5) (:form . "1")))
    (let (ends)
      (agent-q-image-call connection 'refused "eval-form" arguments 5
                          (lambda (&rest end) (push end ends)))
      (should (equal '("signalled") (mapcar #'car ends)))
      (should (stringp (cadar ends)))))
  (should (string-match-p "Unknown operation of the image: no-such"
                          (plist-get (agent-q-test-image-reply connection "no-such")
                                     :message))))

;;;; The user's own debuggers

(agent-q-test-image-on-each leaves-the-user-their-debugger ()
  "An error of the user's own opens their debugger, as it does without us."
  (let ((before (agent-q-test-image-start connection "(sleep 0.1)")))
    (agent-q-connection-ask connection :rex '(cl:error "Theirs") t #'ignore)
    (let ((buffer (agent-q-test-image-await
                   (lambda () (car (agent-q-test-image-debuggers))) 20)))
      (should buffer)
      (agent-q-test-image-await
       (lambda () (with-current-buffer buffer
                    (string-match-p "theirs" (buffer-string))))
       20)
      (with-current-buffer buffer
        (should (string-match-p "theirs" (buffer-string)))
        (funcall (if (eq 'sly (agent-q-connection-client connection))
                     'sly-db-quit
                   'sldb-quit)))
      (agent-q-test-image-await
       (lambda () (null (agent-q-test-image-debuggers))) 20))
    (should (eq :returned (plist-get (cdr (agent-q-test-image-end before)) :outcome)))))

(ert-deftest agent-q-image-callback-that-fails ()
  "An error in a callback stays where it is."
  :tags '(:image)
  (let ((connection (or (agent-q-test-image-connection 'slime)
                        (agent-q-test-image-connection 'sly)))
        (called 0))
    (unless connection (ert-skip "No SBCL"))
    (agent-q-image-call connection 'failing "eval-form" '(:form "1") 10
                        (lambda (&rest _) (cl-incf called) (error "Mine")))
    (agent-q-test-image-await (lambda () (= called 1)))
    (should (= called 1))
    (should (equal '("3") (agent-q-test-image-values connection "(+ 1 2)")))))

(ert-deftest agent-q-image-no-connection ()
  "A call without a connection ends at once, and says so."
  (let (ends)
    (agent-q-image-call nil 'nowhere "eval-form" '(:form "1") 5
                        (lambda (&rest end) (push end ends)))
    (should (equal '(("no-connection" nil)) ends))
    (should (zerop (agent-q-connection-pending)))))

(provide 'agent-q-image-test)
;;; agent-q-image-test.el ends here
