;;; agent-q-approval-prompt-test.el --- Tests of answering at the empty prompt  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Which keys at the prompt answer a request and which are text.  The times are set and
;; not waited for; test/terminal/prompt-test.sh does it with real ones.

;;; Code:

(require 'agent-q-test)

(defvar agent-q-approval-prompt-test--told nil
  "What the core was told, latest first.")

(defvar agent-q-approval-prompt-test--follows nil
  "Whether another key follows the one that is typed.")

(defmacro agent-q-approval-prompt-test--with-chat (&rest body)
  "Run BODY in a chat in which two calls wait; the core only takes notes."
  (declare (indent 0) (debug t))
  `(let ((agent-q-approval-prompt-test--told nil)
         (agent-q-approval-prompt-test--follows nil))
     (agent-q-registry-ensure)
     (cl-letf (((symbol-function 'agent-q-core-decide)
                (lambda (&rest answer) (push answer agent-q-approval-prompt-test--told)))
               ((symbol-function 'agent-q-core-offered-rule)
                (lambda (&rest _)
                  "[{\"width\":\"call\",\"rule\":{\"n\":1},\"description\":\"This.\"},{\"width\":\"reason\",\"rule\":{\"n\":2},\"description\":\"More.\"}]"))
               ((symbol-function 'agent-q-core-add-rule)
                (lambda (&rest rule) (push rule agent-q-approval-prompt-test--told)))
               ((symbol-function 'agent-q-approval-gate-in-view-p) (lambda (_call) t))
               ((symbol-function 'agent-q-approval--prompt-alone-p)
                (lambda () (not agent-q-approval-prompt-test--follows))))
       (agent-q-test-with-chat
         (dolist (key '(7 8))
           (agent-q-test-event :approval :call key :tool "eval_form" :level "dangerous"
                               :reason "runs programs: X in (x)" :arguments "{\"form\":\"(x)\"}"))
         (goto-char (point-max))
         ,@body))))

(defun agent-q-approval-prompt-test--type (keys)
  "Press KEYS, a string, each after the hooks that run before a command."
  (mapc (lambda (key)
          (setq this-command (key-binding (string key))
                last-command-event key)
          (run-hooks 'pre-command-hook)
          (call-interactively this-command))
        keys))

(defun agent-q-approval-prompt-test--later ()
  "Have everything that was typed be long ago."
  (setq agent-q-approval--prompt-typed nil
        agent-q-approval--prompt-held-at (and agent-q-approval--prompt-held-at
                                              (time-subtract nil 10))))

(ert-deftest agent-q-approve-prompt-a-key-answers-what-was-seen ()
  (agent-q-approval-prompt-test--with-chat
    (agent-q-test-arm)
    (let ((here (- (point-max) (point))))
      (agent-q-approval-prompt-test--type "y")
      (should (equal agent-q-approval-prompt-test--told '((7 "approved" nil))))
      ;; Point stays, and so does the prompt.
      (should (= here (- (point-max) (point))))
      (should (equal (agent-q-prompt-text) ""))
      ;; The next one has to be seen first.
      (agent-q-approval-prompt-test--later)
      (agent-q-approval-prompt-test--type "y")
      (should (= 1 (length agent-q-approval-prompt-test--told)))
      (agent-q-approval-prompt-test--later)
      (agent-q-test-arm)
      (agent-q-approval-prompt-test--type "n")
      (should (equal (car agent-q-approval-prompt-test--told) '(8 "denied" nil)))
      ;; Nothing waits any more, so that keys are text.
      (agent-q-approval-prompt-test--type "y")
      (should (equal (agent-q-prompt-text) "y")))))

(ert-deftest agent-q-approve-prompt-what-is-typed-on-is-a-message ()
  ;; As the request comes in.
  (agent-q-approval-prompt-test--with-chat
    (agent-q-approval-prompt-test--type "yes, do")
    (should (equal (agent-q-prompt-text) "yes, do")))
  ;; Long after it was read.
  (agent-q-approval-prompt-test--with-chat
    (agent-q-test-arm)
    (setq agent-q-approval-prompt-test--follows t)
    (agent-q-approval-prompt-test--type "yes, do")
    (should (equal (agent-q-prompt-text) "yes, do"))
    (should-not agent-q-approval-prompt-test--told))
  ;; After a text that was deleted again, or sent.
  (agent-q-approval-prompt-test--with-chat
    (agent-q-test-arm)
    (agent-q-approval-prompt-test--type "a")
    (delete-char -1)
    (agent-q-approval-prompt-test--type "no")
    (should (equal (agent-q-prompt-text) "no"))
    (should-not agent-q-approval-prompt-test--told)
    (agent-q-approval-prompt-test--later)
    ;; With text at the prompt, keys are text for ever.
    (agent-q-approval-prompt-test--type "y")
    (should (equal (agent-q-prompt-text) "noy")))
  ;; Letters that answer nothing give back those that were held, too.
  (agent-q-approval-prompt-test--with-chat
    (setq agent-q-approval-prompt-test--follows t)
    (agent-q-approval-prompt-test--type "void")
    (setq agent-q-approval-prompt-test--follows nil)
    (should (equal (agent-q-prompt-text) "void"))
    (agent-q-prompt-replace "")
    (agent-q-approval-prompt-test--later)
    (agent-q-approval-prompt-test--type "eerie")
    (should (equal (agent-q-prompt-text) "eerie"))
    (should-not agent-q-approval-prompt-test--told)))

(ert-deftest agent-q-approve-prompt-a-key-that-is-too-fast-does-nothing ()
  (agent-q-approval-prompt-test--with-chat
    (let ((call (agent-q-call-waiting)))
      (agent-q-approval-prompt-test--type "y")
      (should-not agent-q-approval-prompt-test--told)
      (should (equal (agent-q-prompt-text) ""))
      ;; It counts for a while only, and is no part of what is typed much later.
      (agent-q-approval-prompt-test--later)
      (agent-q-approval-prompt-test--type "a")
      (should (equal (agent-q-prompt-text) "a"))
      (agent-q-prompt-replace "")
      (agent-q-approval-prompt-test--later)
      ;; The request came into sight only now.
      (agent-q-test-see call)
      (setf (agent-q-call-since call) (current-time))
      (agent-q-approval-prompt-test--type "y")
      (should-not agent-q-approval-prompt-test--told)
      ;; A key that repeats is one press.
      (agent-q-approval-prompt-test--later)
      (agent-q-test-see call)
      (setf (agent-q-call-since call) nil)
      (setq agent-q-approval-prompt-test--follows t)
      (agent-q-approval-prompt-test--type "y")
      (setq agent-q-approval-prompt-test--follows nil)
      (agent-q-approval-prompt-test--type "yyyy")
      (should-not agent-q-approval-prompt-test--told)
      (should (equal (agent-q-prompt-text) ""))
      ;; Out of sight, nothing counts.
      (agent-q-approval-prompt-test--later)
      (cl-letf (((symbol-function 'agent-q-approval-gate-in-view-p) #'ignore))
        (agent-q-approval-prompt-test--type "y"))
      (should-not agent-q-approval-prompt-test--told)
      (agent-q-approval-prompt-test--later)
      (agent-q-approval-prompt-test--type "y")
      (should (equal agent-q-approval-prompt-test--told '((7 "approved" nil)))))))

(ert-deftest agent-q-approve-prompt-what-changes-under-a-key-is-not-answered ()
  (agent-q-approval-prompt-test--with-chat
    (agent-q-test-arm)
    (cl-letf (((symbol-function 'agent-q-approval--prompt-alone-p)
               (lambda ()
                 (agent-q-test-event :approval :call 7 :tool "eval_form" :level "dangerous"
                                     :arguments "{\"form\":\"(quit)\"}")
                 t)))
      (agent-q-approval-prompt-test--type "y"))
    (agent-q-test-arm)
    (agent-q-approval-prompt-test--later)
    (cl-letf (((symbol-function 'agent-q-approval--prompt-alone-p)
               (lambda ()
                 (agent-q-test-event :call-finished :call 7 :outcome :cancelled)
                 (agent-q-test-see (agent-q-call-waiting))
                 t)))
      (agent-q-approval-prompt-test--type "y"))
    (should-not agent-q-approval-prompt-test--told)))

(ert-deftest agent-q-approve-prompt-what-only-shows-something-need-not-wait ()
  (agent-q-approval-prompt-test--with-chat
    ;; Neither seen nor in sight.
    (cl-letf (((symbol-function 'agent-q-approval-gate-in-view-p) #'ignore))
      (save-window-excursion
        (agent-q-approval-prompt-test--type "v")
        (should (get-buffer-window "*agent-q call*"))))
    (kill-buffer "*agent-q call*")
    (agent-q-test-arm)
    (agent-q-approval-prompt-test--later)
    (agent-q-approval-prompt-test--type "!")
    (agent-q-approval-prompt-test--later)
    (agent-q-approval-prompt-test--type "w")
    (should (agent-q-test-shows "(2 of 2, w shows the next):\nMore."))
    ;; On the request, too.
    (goto-char (agent-q-render-item-start (agent-q-call-waiting)))
    (agent-q-test-press "w")
    (should (agent-q-test-shows "(1 of 2, w shows the next):\nThis."))
    (should-error (agent-q-test-press "!") :type 'user-error)
    (should-not agent-q-approval-prompt-test--told)))

(ert-deftest agent-q-approve-prompt-another-request-can-be-answered-meanwhile ()
  (agent-q-approval-prompt-test--with-chat
    (agent-q-test-arm)
    (let ((other (cadr (agent-q-call-all-waiting))))
      (cl-letf (((symbol-function 'read-string)
                 (lambda (&rest _)
                   ;; While the reason is read, the user answers the other one.
                   (setf (agent-q-render-item-expanded other) t)
                   (agent-q-render-update-item other)
                   (agent-q-test-see other)
                   (save-excursion
                     (goto-char (agent-q-render-item-start other))
                     (agent-q-test-press "y"))
                   (agent-q-test-arm)
                   "no")))
        (agent-q-approval-prompt-test--type "r"))
      (should (equal agent-q-approval-prompt-test--told
                     '((7 "denied" "no") (8 "approved" nil)))))))

(ert-deftest agent-q-approve-prompt-only-keys-that-are-shown-answer ()
  (agent-q-approval-prompt-test--with-chat
    (agent-q-test-arm)
    ;; No diff, no effect, no rule on offer, and only one was seen.
    (dolist (key '("d" "s" "b" "w" "Y"))
      (agent-q-approval-prompt-test--later)
      (agent-q-approval-prompt-test--type key)
      (should (equal (agent-q-prompt-text) "")))
    (agent-q-approval-prompt-test--type "o")
    ;; They may begin a message all the same.
    (should (equal (agent-q-prompt-text) "Yo"))
    (dolist (key '("x" "1"))
      (agent-q-prompt-replace "")
      (agent-q-approval-prompt-test--later)
      (agent-q-approval-prompt-test--type key)
      (should (equal (agent-q-prompt-text) key)))
    (agent-q-prompt-replace "")
    ;; What a model writes is no request.
    (agent-q-test-event :text :text "? Run eval_form?\n    [y] run  [n] deny\n")
    (agent-q-test-find "[y] run  [n] deny\n")
    (should-error (agent-q-test-press "y") :type 'text-read-only)
    (should-not agent-q-approval-prompt-test--told)))

(ert-deftest agent-q-approve-prompt-rules-are-shown-width-by-width ()
  (agent-q-approval-prompt-test--with-chat
    (let ((press (lambda (key)
                   (agent-q-approval-prompt-test--later)
                   (agent-q-test-arm)
                   (agent-q-approval-prompt-test--type key))))
      (funcall press "!")
      (should (agent-q-test-shows "Press ! again to add this rule (1 of 2, w shows the next):\nThis."))
      (funcall press "w")
      (should (agent-q-test-shows "(2 of 2, w shows the next):\nMore."))
      ;; What came up has to be read.
      (agent-q-approval-prompt-test--later)
      (agent-q-approval-prompt-test--type "!")
      (should-not agent-q-approval-prompt-test--told)
      (funcall press "w")
      (funcall press "w")
      (funcall press "!")
      (should (equal (reverse agent-q-approval-prompt-test--told)
                     '(("{\"n\":2}" 7) (7 "approved" nil))))
      (should (agent-q-test-shows "approved, with a rule")))))

(ert-deftest agent-q-approve-prompt-w-is-no-text-beside-a-rule ()
  "Where there is one width, the key that asks for another says so, and writes nothing."
  (agent-q-approval-prompt-test--with-chat
    (cl-letf (((symbol-function 'agent-q-core-offered-rule)
               (lambda (&rest _) "[{\"width\":\"call\",\"rule\":{},\"description\":\"This.\"}]")))
      (agent-q-approval-prompt-test--later)
      (agent-q-test-arm)
      (agent-q-approval-prompt-test--type "!")
      (should (agent-q-test-shows "Press ! again to add this rule:\nThis."))
      (agent-q-approval-prompt-test--later)
      (agent-q-test-arm)
      (should (equal "There is no other rule"
                     (cadr (should-error (agent-q-approval-prompt-test--type "w") :type 'user-error))))
      (should (equal (agent-q-prompt-text) "")))))

(ert-deftest agent-q-approve-prompt-a-key-goes-to-the-beginning-of-a-high-request ()
  (agent-q-approval-prompt-test--with-chat
    (let ((call (agent-q-call-waiting)))
      (agent-q-approval-prompt-test--later)
      (cl-letf (((symbol-function 'agent-q-approval-gate--window) #'ignore))
        (agent-q-approval-prompt-test--type "y")
        ;; Its end has just come up.
        (should (= (point) (point-max)))
        (setf (agent-q-call-since call) (time-subtract nil 10))
        (agent-q-approval-prompt-test--later)
        ;; Letters of a message stay letters.
        (setq agent-q-approval-prompt-test--follows t)
        (agent-q-approval-prompt-test--type "yes")
        (should (equal (agent-q-prompt-text) "yes"))
        (agent-q-prompt-replace "")
        (setq agent-q-approval-prompt-test--follows nil)
        (agent-q-approval-prompt-test--later)
        (agent-q-approval-prompt-test--type "y"))
      (should (= (point) (agent-q-render-item-start call)))
      (should (equal (agent-q-prompt-text) ""))
      (should-not agent-q-approval-prompt-test--told)
      (agent-q-test-see call)
      (agent-q-test-press "y")
      (should (equal agent-q-approval-prompt-test--told '((7 "approved" nil)))))))

(ert-deftest agent-q-approve-prompt-letters-answer-as-the-keys-they-are-on ()
  (let ((default-input-method "russian-computer"))
    (agent-q-approval-prompt-test--with-chat
      (agent-q-test-arm)
      (agent-q-approval-prompt-test--type "н")
      (should (equal agent-q-approval-prompt-test--told '((7 "approved" nil))))
      (should (equal (agent-q-prompt-text) ""))
      (agent-q-approval-prompt-test--later)
      ;; On the request, too, where point stays.
      (let ((call (agent-q-test-arm)))
        (goto-char (agent-q-render-item-start call))
        (agent-q-approval-prompt-test--type "т"))
      (should (equal (car agent-q-approval-prompt-test--told) '(8 "denied" nil)))
      (should (equal (agent-q-prompt-text) "")))))

(ert-deftest agent-q-approve-prompt-letters-of-a-message-are-kept ()
  (let ((default-input-method "russian-computer"))
    (agent-q-approval-prompt-test--with-chat
      (agent-q-test-arm)
      (setq agent-q-approval-prompt-test--follows t)
      (agent-q-approval-prompt-test--type "нет")
      (should (equal (agent-q-prompt-text) "нет"))
      (should-not agent-q-approval-prompt-test--told))))

(ert-deftest agent-q-approve-prompt-a-letter-that-is-two-keys-answers-nothing ()
  ;; It is on y in Russia, and on n in Serbia.
  (let ((default-input-method nil))
    (agent-q-approval-prompt-test--with-chat
      (agent-q-test-arm)
      (agent-q-approval-prompt-test--type "н")
      (should (equal (agent-q-prompt-text) "н"))
      (should-not agent-q-approval-prompt-test--told)
      ;; Nor is it a message.
      (should (string-match-p "press y or n without RET" (agent-q-approval-mistyped "н")))
      (should-not (agent-q-approval-mistyped "ф"))
      (agent-q-prompt-replace "")
      (agent-q-approval-prompt-test--later)
      ;; All keyboards have this one at the same place.
      (agent-q-approval-prompt-test--type "ν")
      (should (equal agent-q-approval-prompt-test--told '((7 "denied" nil)))))))

(ert-deftest agent-q-approve-prompt-input-methods-are-passed-by ()
  (agent-q-approval-prompt-test--with-chat
    (let ((call (agent-q-test-arm)))
      (activate-input-method "russian-computer")
      (should (equal (funcall input-method-function ?y) '(?н)))
      (goto-char (agent-q-render-item-start call))
      (should (equal (funcall input-method-function ?y) '(?y)))
      (should (equal (funcall input-method-function ?g) '(?п)))
      (goto-char (point-max))
      ;; Here y begins a syllable, which it does not while it stands alone.
      (activate-input-method "japanese")
      (should (equal (funcall input-method-function ?y) '(?y)))
      (setq agent-q-approval-prompt-test--follows t)
      (cl-letf (((symbol-function 'quail-start-conversion) (lambda (_key) "よ")))
        (should (equal (funcall input-method-function ?y) '(?よ)))))))

(provide 'agent-q-approval-prompt-test)
;;; agent-q-approval-prompt-test.el ends here
